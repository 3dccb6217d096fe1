#include "muster/optim/clip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/optim/internal/options.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::optim {
namespace {

class ClipByGlobalNorm final : public GradientTransformation {
 public:
  explicit ClipByGlobalNorm(double max_norm) : max_norm_(max_norm) {}

  double max_norm() const { return max_norm_; }

  std::string describe() const override {
    return fmt::format("clip_by_global_norm({})", max_norm_);
  }

  void transform(StepGradients& step) const override {
    // Variable by variable, so that the bits do not depend on how they lie in memory.
    double squares = 0;
    for (const StepGradients::Item& item : step.items) {
      const Tensor length = at::linalg_vector_norm(item.gradient, 2, {}, false, kFloat64);
      squares += std::pow(length.item<double>(), 2);
    }
    const double norm = std::sqrt(squares) * step.scale;
    if (!std::isfinite(norm)) {
      throw Error(ErrorKind::kNonFinite,
                  fmt::format("the global norm of the gradients of optimizer {} is {}",
                              step.optimizer, norm),
                  "lower the learning rate or check the loss: clipping shortens gradients, and "
                  "what is not finite has no length");
    }
    if (norm > max_norm_) step.scale *= max_norm_ / norm;
  }

 private:
  double max_norm_;
};

}  // namespace

Optimizer clip_by_global_norm(Optimizer optimizer, double max_norm) {
  if (!std::isfinite(max_norm) || max_norm <= 0) {
    throw internal::bad_option("clip_by_global_norm", "max_norm", max_norm,
                               "finite and more than 0");
  }
  return optimizer.with(std::make_shared<ClipByGlobalNorm>(max_norm));
}

}  // namespace muster::inline v0_1::optim
