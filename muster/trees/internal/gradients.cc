#include "muster/trees/internal/gradients.h"

#include <algorithm>
#include <cmath>

namespace muster::inline v0_1::trees {
namespace {

constexpr int kGradientBits = 21;
constexpr int kHessianValueBits = 16;

// 2^-k for the k that makes `largest` a number of `bits` bits.
double unit(double largest, int bits) {
  int exponent = 0;
  std::frexp(largest, &exponent);
  return largest > 0 ? std::ldexp(1.0, exponent - bits) : 1.0;
}

}  // namespace

Scale scale_for(double largest_gradient, double largest_hessian) {
  return {unit(largest_gradient, kGradientBits), unit(largest_hessian, kHessianValueBits)};
}

std::vector<int64_t> quantize(const Derivatives& derivatives, const Scale& scale) {
  constexpr int64_t kLargest = (int64_t{1} << kGradientBits) - 1;
  constexpr int64_t kLargestHessian = (int64_t{1} << kHessianValueBits) - 1;
  const double g = 1 / scale.gradient, h = 1 / scale.hessian;
  std::vector<int64_t> packed(derivatives.gradients.size());
  for (size_t i = 0; i < packed.size(); ++i) {
    const double x = derivatives.gradients[i] * g;
    const auto gradient = static_cast<int64_t>(x + (x >= 0 ? 0.5 : -0.5));
    const auto hessian = static_cast<int64_t>(derivatives.hessians[i] * h + 0.5);
    packed[i] = std::clamp(gradient, -kLargest, kLargest) * (int64_t{1} << kHessianBits) +
                std::clamp<int64_t>(hessian, 1, kLargestHessian);
  }
  return packed;
}

}  // namespace muster::inline v0_1::trees
