#include "muster/optim/clip.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/optim/internal/options.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

double norm_of(const Tensor& gradient, double scale) {
  return at::linalg_vector_norm(gradient, 2, {}, false, kFloat64).item<double>() * scale;
}

Error not_finite(const std::string& whose, const StepGradients& step, double norm) {
  return Error(ErrorKind::kNonFinite,
               fmt::format("{} of optimizer {} is {}", whose, step.optimizer, norm),
               "lower the learning rate or check the loss: clipping shortens gradients, and what "
               "is not finite has no length");
}

class ClipByGlobalNorm final : public GradientTransformation {
 public:
  explicit ClipByGlobalNorm(double max_norm) : max_norm_(max_norm) {}

  std::string describe() const override {
    return fmt::format("clip_by_global_norm({})", max_norm_);
  }

  void transform(StepGradients& step) const override {
    // Variable by variable, so that the bits do not depend on how they lie in memory.
    double squares = 0;
    for (const StepGradients::Item& item : step.items)
      squares += std::pow(norm_of(item.gradient, 1), 2);
    const double norm = std::sqrt(squares) * step.scale;
    if (!std::isfinite(norm)) throw not_finite("the global norm of the gradients", step, norm);
    if (norm > max_norm_) step.scale *= max_norm_ / norm;
  }

 private:
  const double max_norm_;
};

class ClipByNorm final : public GradientTransformation {
 public:
  explicit ClipByNorm(double max_norm) : max_norm_(max_norm) {}

  std::string describe() const override { return fmt::format("clip_by_norm({})", max_norm_); }

  void transform(StepGradients& step) const override {
    // Nothing is written before all norms are known to be numbers.
    std::vector<double> norms;
    for (const StepGradients::Item& item : step.items) {
      norms.push_back(norm_of(item.gradient, step.scale));
      if (std::isfinite(norms.back())) continue;
      throw not_finite("the norm of the gradient of " + item.variable->name, step, norms.back());
    }
    for (size_t i = 0; i < norms.size(); ++i) {
      if (norms[i] > max_norm_) step.items[i].gradient.mul_(max_norm_ / norms[i]);
    }
  }

 private:
  const double max_norm_;
};

class ClipByValue final : public GradientTransformation {
 public:
  explicit ClipByValue(double clip_value) : clip_value_(clip_value) {}

  std::string describe() const override { return fmt::format("clip_by_value({})", clip_value_); }

  void transform(StepGradients& step) const override {
    const double bound = clip_value_ / step.scale;
    for (StepGradients::Item& item : step.items) item.gradient.clamp_(-bound, bound);
  }

 private:
  const double clip_value_;
};

void check_clip(const Optimizer& optimizer, const char* function, const char* field, double value) {
  if (!std::isfinite(value) || value <= 0)
    throw internal::bad_option(function, field, value, "finite and more than 0");
  for (const auto& transformation : optimizer.transformations()) {
    if (!transformation->describe().starts_with(std::string(function) + "(")) continue;
    throw invalid_argument(fmt::format("{}: the optimizer {} has {} already", function,
                                       optimizer.name(), transformation->describe()),
                           fmt::format("use {} at most once on an optimizer", function));
  }
}

}  // namespace

Optimizer clip_by_global_norm(Optimizer optimizer, double max_norm) {
  check_clip(optimizer, "clip_by_global_norm", "max_norm", max_norm);
  return optimizer.with(std::make_shared<ClipByGlobalNorm>(max_norm));
}

Optimizer clip_by_norm(Optimizer optimizer, double max_norm) {
  check_clip(optimizer, "clip_by_norm", "max_norm", max_norm);
  return optimizer.with(std::make_shared<ClipByNorm>(max_norm));
}

Optimizer clip_by_value(Optimizer optimizer, double clip_value) {
  check_clip(optimizer, "clip_by_value", "clip_value", clip_value);
  return optimizer.with(std::make_shared<ClipByValue>(clip_value));
}

}  // namespace muster::inline v0_1::optim
