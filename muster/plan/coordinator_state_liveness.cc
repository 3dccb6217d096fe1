// Which members of the group live, and which of them have lost connections.
#include <fmt/format.h>

#include <algorithm>

#include "muster/plan/coordinator_state.h"

namespace muster::inline v0_1::plan {

HeartbeatReply CoordinatorState::heartbeat(const Caller& caller, Phase phase, int64_t step,
                                           double now) {
  const Membership::Member* member = members_.find(caller);
  if (!member) return {.failure = failure_for(caller), .epoch = epoch_};
  // A beat alone is not a progress.
  const bool moved = step != member->place.step || phase != member->place.phase;
  const int rank = rank_of(caller.task);
  if (members_.heartbeat(caller, now, MemberPlace{phase, step}) && moved && rank >= 0)
    watch_.report(rank, phase, step, now);
  return {.failure = failure_, .all_done = all_done(), .epoch = epoch_};
}

int CoordinatorState::connections() const {
  return static_cast<int>(std::ranges::count_if(
      members_.all(), [](const auto& item) { return item.second.connections > 0; }));
}

void CoordinatorState::disconnected(const Caller& caller, double now) {
  members_.disconnected(caller, now);
  if (is_disconnected(caller)) disconnected_at_[rank_of(caller.task)] = now;
}

bool CoordinatorState::is_disconnected(const Caller& caller) const {
  const Membership::Member* member = members_.find(caller);
  return member != nullptr && member->here() && member->pulse.disconnected_since;
}

void CoordinatorState::process_ended(const Caller& caller) {
  if (const auto lost = members_.lose(caller, "its process has ended")) record_lost(*lost);
}

bool CoordinatorState::is_connected(const Caller& caller) const {
  const Membership::Member* member = members_.find(caller);
  return member != nullptr && member->connections > 0;
}

void CoordinatorState::process_ended(const Caller& caller, const Seat& seat, double now) {
  if (members_.find(caller) != nullptr) return process_ended(caller);
  abandon_join(caller);
  fail_to_join(caller, seat, ErrorKind::kPeerLost, "its process has ended", now);
}

void CoordinatorState::record_lost(const Failure& lost) {
  record(lost.task, lost.kind, lost.reason);
  if (const int rank = rank_of(lost.task); rank >= 0) watch_.remove(rank);
}

void CoordinatorState::tick(double now) {
  (void)joiners_.find_lost(now);
  for (const Failure& lost : members_.find_lost(now)) record_lost(lost);
  if (const double gap = members_.take_standstill(); gap > 0) {
    watch_.forgive(gap, now);
    if (lost_connections_) lost_connections_->since += gap;
  }
  judge_lost_connections(now);
  find_stuck(now);
}

void CoordinatorState::find_stuck(double now) {
  if (failure_ || !running_) return;
  for (const auto& [key, barrier] : barriers_) {
    if (barrier.complete) continue;
    const auto stuck = watch_.find_stuck(barrier.arrived, barrier.opened, now);
    if (!stuck) continue;
    record(options_.roster[stuck->member].task, ErrorKind::kTimeout,
           fmt::format("{} {:.1f} s while {} waited at barrier \"{}\"", stuck->complaint(),
                       stuck->seconds, task_at(*barrier.arrived.begin()), key.first));
    return;
  }
}

void CoordinatorState::report_lost_connection(const Caller& caller, const std::string& reason,
                                              double now) {
  const Membership::Member* member = members_.find(caller);
  const int rank = rank_of(caller.task);
  if (member == nullptr || rank < 0 || failure_) return;
  if (!lost_connections_) {
    lost_connections_ = LostConnections{
        .since = now,
        .failure = {.reason = reason, .step = member->place.step, .phase = member->place.phase}};
  }
  lost_connections_->reports.insert(rank);
  judge_lost_connections(now);
}

void CoordinatorState::judge_lost_connections(double now) {
  if (!lost_connections_ || failure_) return;
  // Until it is known which members were disconnected.
  constexpr double kSettle = 0.2;
  const double waited = now - lost_connections_->since;
  const bool all =
      (elastic() || waited > kSettle) && std::ranges::all_of(group_, [this](int rank) {
        return lost_connections_->reports.contains(rank) ||
               members_.find(options_.roster[rank].task)->state != Membership::State::kHere;
      });
  // A member that has died is found lost earlier.
  if (!all && waited <= 2 * options_.reconnect_timeout) return;
  const Failure& broke = lost_connections_->failure;
  const std::string blamed = elastic() ? "" : task_to_blame();
  if (blamed.empty()) {
    failure_ = broke;
  } else {
    record(blamed, ErrorKind::kPeerLost, "its connections broke: " + broke.reason);
  }
}

std::string CoordinatorState::task_to_blame() const {
  std::vector<int> ranks;
  for (const auto& [rank, at] : disconnected_at_) {
    if (group_.contains(rank) && at >= lost_connections_->since - options_.reconnect_timeout)
      ranks.push_back(rank);
  }
  // The first of the roster serves the connections of all.
  const bool all = ranks.size() == group_.size();
  if (ranks.size() != 1 && !all) return "";
  return options_.roster[ranks.front()].task;
}

}  // namespace muster::inline v0_1::plan
