#include "muster/launch/internal/failure_rank.h"

#include "muster/base/exit_code.h"
#include "muster/plan/restart_budget.h"

namespace muster::inline v0_1::launch::internal {

bool asks_for_restart(const ExitStatus& status) {
  return plan::asks_for_restart(status.shell_code());
}

int failure_rank(const TaskExit& exit, const ProcessSpec& spec) {
  if (exit.status.ok() || exit.too_late) return 0;
  if (exit.stuck) return 4;
  if (exit.after_our_signal) return 7;
  if (spec.beside || exit.refused) return kSparedRank;
  if (spec.may_be_lost && !exit.needed && asks_for_restart(exit.status)) return kSparedRank;
  if (exit.status.signal != 0) return 1;
  switch (exit.status.code) {
    case kExitRestart:
      return blames_another(exit.last_error) ? kBlamesAnother : 3;
    case kExitInterrupted:
    case kExitTerminated:
      return 2;
    default:
      return repeats_another(exit.last_error) ? kBlamesAnother : 1;
  }
}

}  // namespace muster::inline v0_1::launch::internal
