// First and second derivatives of the loss, as whole numbers: their sums are exact, whatever the
// order and wherever they are cut.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::inline v0_1::trees {

// Derivatives of the losses of one worker's examples by one logit.
struct Derivatives {
  std::vector<float> gradients{};
  std::vector<float> hessians{};  // more than 0
};

// The meaning of a sum of whole numbers.
struct Scale {
  double gradient = 1;
  double hessian = 1;
};

// Sums of whole numbers over examples.
struct Sums {
  int64_t gradient = 0;
  int64_t hessian = 0;  // 0: no example
  Sums& operator+=(const Sums& other) {
    gradient += other.gradient;
    hessian += other.hessian;
    return *this;
  }
  Sums operator-(const Sums& other) const {
    return {gradient - other.gradient, hessian - other.hessian};
  }
  bool operator==(const Sums&) const = default;
};

// Both in 64 bits, so that one addition adds both: the gradient, of 21 bits and a sign, above a
// hessian of 16 bits, which leaves both enough bits for the sums of kSumsOfPacked examples.
inline constexpr int kHessianBits = 29;
inline constexpr int64_t kSumsOfPacked = int64_t{1} << 13;

// Unpacks a sum of at most kSumsOfPacked packed examples.
inline Sums unpack(int64_t packed) {
  return {packed >> kHessianBits, packed & ((int64_t{1} << kHessianBits) - 1)};
}

// Units, powers of two, in which the largest derivatives of all replicas take all bits.
Scale scale_for(double largest_gradient, double largest_hessian);
// The packed examples, rounded to the nearest; a hessian is at least 1.
std::vector<int64_t> quantize(const Derivatives& derivatives, const Scale& scale);

}  // namespace muster::inline v0_1::trees
