// How several values become one, of replicas and of the losses of a step. Thread safety: a value.
#pragma once

namespace muster::inline v0_1 {

// Of values that replicas bring: their sum, or their mean. Of the losses of replicas: kMean divides
// the weighted losses by the sum of the weights, kSum adds the losses.
enum class ReduceOp { kMean, kSum };

namespace distribute {
using ::muster::ReduceOp;
}

}  // namespace muster::inline v0_1
