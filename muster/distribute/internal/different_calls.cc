#include "muster/distribute/internal/different_calls.h"

#include <fmt/format.h>

namespace muster::inline v0_1::distribute {

Error different_calls(const WorkerCall& one, const WorkerCall& other, const std::string& within) {
  return invalid_argument(
      fmt::format("{}workers came to different calls, and each would wait for the others in its "
                  "own: {} to {}, {} to {}",
                  within.empty() ? "" : within + ": ", one.worker, one.call, other.worker,
                  other.call),
      "every worker makes these calls, in the same order: take the call that one does not make "
      "out of `if (is_chief())`, where printing and files of your own may stay "
      "(docs/strategies.md, \"Who calls what\")");
}

}  // namespace muster::inline v0_1::distribute
