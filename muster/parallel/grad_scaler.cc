#include "muster/parallel/grad_scaler.h"

#include <fmt/format.h>
#include <torch/optim/optimizer.h>

#include "muster/base/error.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/sgd.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

GradScaler::GradScaler(torch::optim::Optimizer& optimizer, const optim::LossScalingOptions& options)
    : optimizer_(optimizer), options_(options), state_{.scale = options.initial_scale} {
  // One place knows which options are right.
  (void)optim::loss_scaling(optim::sgd(), options);
}

Tensor GradScaler::scale(const Tensor& loss) const { return loss * state_.scale; }

void GradScaler::unscale() {
  if (unscaled_) return;
  const torch::NoGradGuard no_grad;
  for (const auto& group : optimizer_.param_groups()) {
    for (const Tensor& parameter : group.params()) {
      if (parameter.grad().defined()) parameter.grad().div_(state_.scale);
    }
  }
  unscaled_ = true;
}

bool GradScaler::gradients_are_finite() const {
  const torch::NoGradGuard no_grad;
  Tensor finite;
  for (const auto& group : optimizer_.param_groups()) {
    for (const Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      // One that is not finite makes the sum of zeros NaN; the device is asked once.
      const Tensor zero = (parameter.grad() * 0).sum(kFloat32);
      finite = finite.defined() ? finite + zero : zero;
    }
  }
  return !finite.defined() || finite.item<float>() == 0;
}

bool GradScaler::step() {
  unscale();
  unscaled_ = false;
  const bool finite = !options_.dynamic || gradients_are_finite();
  if (finite) {
    optimizer_.step();
  } else if (state_.scale <= 1) {
    throw Error(ErrorKind::kNonFinite,
                "a gradient is not finite, and the loss is not scaled any more (its scale is 1)",
                "lower the learning rate or clip gradients, and continue from the last checkpoint");
  }
  if (options_.dynamic) state_ = optim::next_loss_scale(options_, state_, finite);
  return finite;
}

}  // namespace muster::inline v0_1
