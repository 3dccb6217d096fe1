// How per-example losses become one number.
// Thread safety: values.
#pragma once

namespace muster::inline v0_1 {

// How the losses of several replicas become that of the step: kMean divides the weighted sum by the
// sum of weights, kSum adds.
enum class LossReduction { kMean, kSum };

}  // namespace muster::inline v0_1
