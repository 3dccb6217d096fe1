// Adds the losses that layers report (CallContext::add_loss) to the loss of a batch. Thread safety:
// pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/base/export.h"
#include "muster/losses/reduction.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Returns the sum of `added`, means over the examples, as a loss of that reduction gets it: times
// `rows` where losses are added. Undefined without any.
MUSTER_PART_EXPORT Tensor sum_of_added(const std::vector<Tensor>& added, ReduceOp reduction,
                                       int64_t rows);

// Adds `sum` to the loss that the entries of `train_op` share. Throws InvalidArgument if they have
// several, because it is unknown to which one it belongs. An undefined sum changes nothing.
void add_to_loss(optim::TrainOp& train_op, const Tensor& sum);

}  // namespace muster::inline v0_1
