// Updates whose loss is read after they are recorded. A device of XLA then runs a step as one
// program. Thread safety: as the updater.
#pragma once

#include <functional>

#include "muster/optim/train_op.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::distribute::internal {

class LateLoss {
 public:
  virtual ~LateLoss() = default;

  // The next update(), of one batch, records everything, and then calls `read`, which runs what was
  // recorded and returns the loss, or throws NonFinite. Weights, slots and counters stay as they
  // are if the loss or the penalty of regularizers is not finite: `loss` is the loss on its device.
  // Returns false, and changes nothing, if the update of `train_op` reads numbers itself, or calls
  // functions of the program.
  virtual bool read_later(const optim::TrainOp& train_op, const Tensor& loss,
                          std::function<double()> read) = 0;
};

}  // namespace muster::inline v0_1::distribute::internal
