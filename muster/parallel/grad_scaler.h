// Loss scaling for float16 on GPUs: small gradients do not become 0, and a step whose gradients
// overflow is left out. It is Python's torch.amp.GradScaler, one for each optimizer.
//
//   muster::GradScaler scaler(adam);
//   checkpoint.add("scaler", scaler);
//   scaler.scale(loss).backward();
//   scaler.unscale();  // needed only where gradients are clipped or read
//   torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
//   scaler.step();     // in place of adam.step()
//
// Workers agree without a message: the gradients of data_parallel() are the same on all of them,
// and one that is not finite on one worker is not finite in their mean.
// Thread safety: belongs to the thread of the loop.
#pragma once

#include "muster/base/export.h"
#include "muster/optim/loss_scaling.h"
#include "muster/tensor/tensor.h"

namespace torch::optim {
class Optimizer;
}

namespace muster::inline v0_1 {

class LoopCheckpoint;

class MUSTER_EXPORT GradScaler {
 public:
  // `optimizer` outlives it. Throws InvalidArgument for options that optim::loss_scaling() refuses.
  explicit GradScaler(torch::optim::Optimizer& optimizer,
                      const optim::LossScalingOptions& options = {});

  // The loss multiplied by the scale, to call backward() of.
  Tensor scale(const Tensor& loss) const;
  // Divides the gradients of the optimizer's parameters by the scale. step() does it where it was
  // not called since the last step().
  void unscale();
  // Makes the optimizer's step, and returns true. If a gradient is not finite, changes no parameter
  // and no state of the optimizer, halves the scale, and returns false. Throws NonFinite if the
  // scale is 1 already. With dynamic = false gradients are not checked.
  bool step();
  double scale() const { return state_.scale; }

 private:
  friend class LoopCheckpoint;
  bool gradients_are_finite() const;

  torch::optim::Optimizer& optimizer_;
  const optim::LossScalingOptions options_;
  optim::LossScale state_;
  bool unscaled_ = false;
};

}  // namespace muster::inline v0_1
