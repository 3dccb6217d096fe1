// What becomes of a training step that is no number. Thread safety: pure functions.
#pragma once

#include <string_view>

namespace muster::inline v0_1 {

// A step is not finite when its loss over all replicas is NaN or infinite; with kSkip and kRollBack
// also when a gradient is, of which only loss scaling takes care by itself. All replicas decide
// alike, and in no case was anything updated or saved.
enum class NonFinitePolicy {
  kStop,      // the run ends with NonFinite, which says where the number comes from
  kSkip,      // the step is left out: the next batches make the step of the same number
  kRollBack,  // the state becomes that of the last save, and goes on with the batches behind it
};

// Gives "stop", "skip", "roll back".
constexpr std::string_view to_string(NonFinitePolicy policy) {
  return policy == NonFinitePolicy::kStop   ? "stop"
         : policy == NonFinitePolicy::kSkip ? "skip"
                                            : "roll back";
}

}  // namespace muster::inline v0_1
