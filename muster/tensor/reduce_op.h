// How values of several replicas, or losses of a step, become one. Thread safety: a value.
#pragma once

namespace muster::inline v0_1 {

// For values of replicas: their sum, or their mean. For losses of replicas: kMean divides the
// weighted losses by the sum of the weights, kSum adds the losses.
enum class ReduceOp { kMean, kSum };

namespace distribute {
using ::muster::ReduceOp;
}

}  // namespace muster::inline v0_1
