// Thread safety: a value.
#pragma once

namespace muster::inline v0_1::distribute {

// How the values of replicas become one.
enum class ReduceOp { kSum, kMean };

}  // namespace muster::inline v0_1::distribute
