// What to do with a training step that is not finite. Thread safety: pure functions.
#pragma once

#include <string_view>

namespace muster::inline v0_1 {

// A step is not finite when its loss over all replicas is NaN or infinite; with kSkip and kRollBack
// also when a gradient is, unless loss scaling handles it. All replicas decide the same, and such a
// step updates and saves nothing.
enum class NonFinitePolicy {
  kStop,      // the run ends with NonFinite, whose message says where the number comes from
  kSkip,      // the step is skipped: the next batches make the step of the same number
  kRollBack,  // the state returns to the last save, and training continues with the next batches
};

// Returns "stop", "skip", "roll back".
constexpr std::string_view to_string(NonFinitePolicy policy) {
  return policy == NonFinitePolicy::kStop   ? "stop"
         : policy == NonFinitePolicy::kSkip ? "skip"
                                            : "roll back";
}

}  // namespace muster::inline v0_1
