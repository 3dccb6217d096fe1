// When a task of the group counts as dead: after a silence, or when its connection does not come
// back.
#include <fmt/format.h>

#include "muster/plan/coordinator_state.h"

namespace muster::inline v0_1::plan {

void CoordinatorState::find_dead_tasks(double now) {
  std::erase_if(joiners_, [&](const auto& item) {
    return now - item.second.last_heard > options_.heartbeat_timeout;
  });
  std::erase_if(rivals_, [&](const auto& item) {
    return now - item.second > 3 * options_.heartbeat_timeout;
  });
  for (auto& [task, member] : members_) {
    if (member.gone) continue;
    std::string reason;
    if (now - member.last_heard > options_.heartbeat_timeout) {
      reason = fmt::format("no heartbeat for {:.1f} s", now - member.last_heard);
    } else if (member.disconnected_since &&
               now - *member.disconnected_since > options_.reconnect_grace) {
      reason = fmt::format("its connection closed and did not come back within {:.1f} s",
                           options_.reconnect_grace);
    } else {
      continue;
    }
    mark_gone(member);
    if (!member.done) record(task, ErrorKind::kPeerLost, std::move(reason));
  }
}

void CoordinatorState::mark_gone(Member& member) {
  member.gone = true;
  if (member.rank >= 0) watch_.remove(member.rank);
}

}  // namespace muster::inline v0_1::plan
