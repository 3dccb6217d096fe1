#include "muster/launch/internal/failure_rank.h"

#include <string_view>

namespace muster::inline v0_1::launch::internal {
namespace {

// Whether the last words of a task are that a peer was lost, or did not come in time.
bool blames_another(std::string_view error) {
  return error.find("PeerLost: ") != std::string_view::npos ||
         error.find("Timeout: ") != std::string_view::npos;
}

// Whether the last words of a task tell what another one failed with: "...: worker 1 failed at step
// 3: ...".
bool repeats_another(std::string_view error) {
  const std::string_view before = error.substr(0, error.find(" failed "));
  const size_t colon = before.rfind(": ");
  if (before.size() == error.size() || colon == std::string_view::npos) return false;
  const std::string_view task = before.substr(colon + 2);
  return task == "chief" || task.starts_with("worker ") || task.starts_with("ps ");
}

}  // namespace

bool asks_for_restart(const ExitStatus& status) {
  return status.signal != 0 || status.code == 138 || status.code == 130 || status.code == 143;
}

int failure_rank(const TaskExit& exit, const ProcessSpec& spec) {
  if (exit.status.ok() || exit.too_late) return 0;
  if (exit.stuck) return 4;
  if (exit.after_our_signal) return 7;
  if (spec.beside || (spec.may_be_lost && asks_for_restart(exit.status))) return 6;
  if (exit.status.signal != 0) return 1;
  switch (exit.status.code) {
    case 138:
      return blames_another(exit.last_error) ? 5 : 3;
    case 130:
    case 143:
      return 2;
    default:
      return repeats_another(exit.last_error) ? 5 : 1;
  }
}

}  // namespace muster::inline v0_1::launch::internal
