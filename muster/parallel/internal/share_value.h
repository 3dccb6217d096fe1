// Gives a value of one worker to all. Thread safety: as an operation of the communicator.
#pragma once

#include "muster/distribute/replica.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// `value` becomes that of worker `root`, in place, on all workers; they call this together, with
// tensors of one shape and dtype.
void share_value(distribute::Replica& replica, const Tensor& value, int root);

}  // namespace muster::inline v0_1::internal
