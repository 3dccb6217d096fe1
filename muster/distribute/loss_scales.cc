#include "muster/distribute/loss_scales.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

void LossScales::add(const optim::Optimizer& optimizer) {
  Scale scale{.optimizer = optimizer.name(), .options = optimizer.loss_scaling()};
  if (scale.options && scale.options->dynamic) {
    scale.scale = torch::full({}, scale.options->initial_scale, at::kDouble);
    scale.good_steps = torch::zeros({}, at::kLong);
  }
  scales_.push_back(std::move(scale));
}

bool LossScales::dynamic(size_t optimizer) const { return scales_[optimizer].scale.defined(); }

optim::LossScale LossScales::now(const Scale& scale) const {
  if (!scale.options) return {};
  if (!scale.scale.defined()) return {.scale = scale.options->initial_scale};
  return {*scale.scale.data_ptr<double>(), *scale.good_steps.data_ptr<int64_t>()};
}

double LossScales::scale(size_t optimizer) const { return now(scales_[optimizer]).scale; }

void LossScales::check(size_t optimizer, bool finite) const {
  const Scale& scale = scales_[optimizer];
  if (finite || now(scale).scale > 1) return;
  throw Error(ErrorKind::kNonFinite,
              fmt::format("the gradients of optimizer {} are not finite, with a loss scale of 1",
                          scale.optimizer),
              "lower the learning rate or check the loss: no smaller scale makes them finite");
}

void LossScales::update(size_t optimizer, bool finite) {
  const Scale& scale = scales_[optimizer];
  if (!scale.scale.defined()) return;
  const optim::LossScale next = optim::next_loss_scale(*scale.options, now(scale), finite);
  *scale.scale.data_ptr<double>() = next.scale;
  *scale.good_steps.data_ptr<int64_t>() = next.good_steps;
}

std::map<std::string, Tensor> LossScales::tensors() const {
  std::map<std::string, Tensor> named;
  for (const Scale& scale : scales_) {
    if (!scale.scale.defined()) continue;
    named[scale.optimizer + "/loss_scale"] = scale.scale;
    named[scale.optimizer + "/good_steps"] = scale.good_steps;
  }
  return named;
}

std::vector<Tensor> LossScales::pieces() const {
  std::vector<Tensor> pieces;
  for (const Scale& scale : scales_) {
    if (!scale.scale.defined()) continue;
    pieces.push_back(scale.scale.view({1}));
    pieces.push_back(scale.good_steps.view({1}));
  }
  return pieces;
}

}  // namespace muster::inline v0_1::distribute
