#include "muster/plan/coordinator_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "muster/plan/standstill.h"

namespace muster::inline v0_1::plan {
namespace {

Verdict refuse(std::string message, std::string hint = {}) {
  return {.state = Verdict::State::kRefused,
          .refusal = invalid_argument(std::move(message), std::move(hint))};
}

Verdict refuse_observer(const Caller& caller) {
  return refuse(fmt::format("{} is no member of the group: it may watch and tell where it is",
                            readable_task(caller.task)));
}

// The first lines of sorted `a` that sorted `b` does not have: "[kernel [4,2] float32]".
std::string only_in(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  constexpr size_t kShown = 4;
  std::vector<std::string> lines;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(lines));
  if (lines.empty()) return "nothing";
  const size_t more = lines.size() > kShown ? lines.size() - kShown : 0;
  lines.resize(lines.size() - more);
  const std::string text = fmt::format("[{}]", fmt::join(lines, "; "));
  return more ? text + fmt::format(" and {} more", more) : text;
}

}  // namespace

CoordinatorState::CoordinatorState(CoordinatorOptions options, double now)
    : options_(std::move(options)),
      watch_(static_cast<int>(options_.roster.size()), patience(), Phase::kJoining, now),
      last_tick_(now) {
  if (options_.roster.empty())
    throw invalid_argument("the coordinator's roster is empty", "list at least one task");
  for (const RosterEntry& entry : options_.roster) {
    if (!missing_since_.emplace(entry.task, now).second) {
      throw invalid_argument(fmt::format("the coordinator's roster lists {} twice", entry.task));
    }
  }
  auto check = [](const char* name, double value) {
    if (!(value > 0))
      throw invalid_argument(fmt::format("{} is {}, must be positive", name, value));
  };
  check("heartbeat_timeout", options_.heartbeat_timeout);
  check("reconnect_grace", options_.reconnect_grace);
  check("progress_timeout", options_.progress_timeout);
  check("save_timeout", options_.save_timeout);
  check("busy_timeout", options_.busy_timeout);
}

Patience CoordinatorState::patience() const {
  return {.progress = options_.progress_timeout,
          .save = options_.save_timeout,
          .busy = options_.busy_timeout};
}

CoordinatorState::Member* CoordinatorState::find(const Caller& caller) {
  auto it = members_.find(caller.task);
  return it != members_.end() && it->second.incarnation == caller.incarnation ? &it->second
                                                                              : nullptr;
}

const CoordinatorState::Member* CoordinatorState::find(const Caller& caller) const {
  return const_cast<CoordinatorState*>(this)->find(caller);
}

std::optional<Failure> CoordinatorState::failure_for(const Caller& caller) const {
  if (find(caller)) return failure_;
  if (last_failure_) return last_failure_;
  if (failure_) return failure_;
  return Failure{.task = caller.task,
                 .kind = ErrorKind::kPeerLost,
                 .reason =
                     "the coordinator does not know this process: the chief restarted, or the "
                     "group went on without it"};
}

Verdict CoordinatorState::verdict_of_failure(const Caller& caller) const {
  return {.state = Verdict::State::kFailed, .failure = failure_for(caller)};
}

std::string CoordinatorState::task_at(int rank) const {
  return readable_task(options_.roster[rank].task);
}

void CoordinatorState::record(const std::string& task, ErrorKind kind, std::string reason) {
  auto it = members_.find(task);
  if (failure_ || it == members_.end() || it->second.rank < 0) return;
  failure_ = Failure{.task = task,
                     .rank = it->second.rank,
                     .kind = kind,
                     .reason = std::move(reason),
                     .step = it->second.step,
                     .phase = it->second.phase};
}

// --- the group ---

Verdict CoordinatorState::wait_as_rival(const Caller& caller, double now) {
  double since = rivals_.emplace(std::pair(caller.task, caller.incarnation), now).first->second;
  if (now - since <= options_.heartbeat_timeout) return {.missing = missing(now)};
  rivals_.erase({caller.task, caller.incarnation});
  return refuse(
      fmt::format("another live process already is {}", readable_task(caller.task)),
      "start every task with its own task.type and task.index, and stop what is left of an earlier "
      "run");
}

std::optional<Verdict> CoordinatorState::refuse_join(const Caller& caller, const Seat& seat) const {
  const auto& [rank, world_size, addresses] = seat;
  const int roster_size = static_cast<int>(options_.roster.size());
  const std::string same_cluster = "start all tasks with the same cluster in TF_CONFIG";
  if (world_size != roster_size) {
    return refuse(fmt::format("{} counts {} tasks in the group, the chief counts {}",
                              readable_task(caller.task), world_size, roster_size),
                  same_cluster);
  }
  if (rank >= roster_size || (rank >= 0 && options_.roster[rank].task != caller.task)) {
    return refuse(
        fmt::format("{} joined with rank {}, where the chief's cluster has {}",
                    readable_task(caller.task), rank,
                    rank < roster_size ? readable_task(options_.roster[rank].task) : "no task"),
        same_cluster);
  }
  for (size_t other = 0; other < std::min(addresses.size(), options_.roster.size()); ++other) {
    const RosterEntry& entry = options_.roster[other];
    if (addresses[other] == entry.address) continue;
    return refuse(
        fmt::format("{} belongs to another cluster: there {} is at {}, in the chief's it is at {}",
                    readable_task(caller.task), readable_task(entry.task), addresses[other],
                    entry.address),
        same_cluster);
  }
  if (rank < 0 && missing_since_.contains(caller.task)) {
    return refuse(fmt::format("{} joined as an observer, but is a member of the group",
                              readable_task(caller.task)),
                  same_cluster);
  }
  return std::nullopt;
}

Verdict CoordinatorState::join_as_observer(const Caller& caller, double now) {
  const auto member = members_.find(caller.task);
  if (member != members_.end() && !member->second.gone && member->second.connections > 0)
    return wait_as_rival(caller, now);
  if (member == members_.end()) {
    std::erase_if(members_,
                  [](const auto& item) { return item.second.rank < 0 && item.second.gone; });
    const auto observers =
        std::ranges::count_if(members_, [](const auto& item) { return item.second.rank < 0; });
    const int most = most_observers(static_cast<int>(options_.roster.size()));
    if (observers >= most) {
      return refuse(
          fmt::format("{} is one observer more than the {} that a group of {} tasks has room for",
                      readable_task(caller.task), most, options_.roster.size()));
    }
  }
  members_[caller.task] = {.incarnation = caller.incarnation, .last_heard = now};
  return {.state = Verdict::State::kReady};
}

Verdict CoordinatorState::join(const Caller& caller, int rank, int world_size, double now,
                               const std::vector<std::string>& addresses) {
  if (auto refusal = refuse_join(caller, {rank, world_size, addresses})) return *refusal;
  auto member = members_.find(caller.task);
  const bool known = member != members_.end();
  if (known && member->second.incarnation == caller.incarnation) {
    member->second.last_heard = now;
    if (failure_) return verdict_of_failure(caller);
    return {.state = Verdict::State::kReady};
  }
  if (rank < 0) return join_as_observer(caller, now);
  if (running_ && !failure_ && known) {
    const Member& old = member->second;
    const bool alive =
        !old.gone && old.connections > 0 && now - old.last_heard <= options_.heartbeat_timeout;
    if (alive) return wait_as_rival(caller, now);
    // A group whose members are all done is over: a newcomer begins the next one, it breaks
    // nothing. Until then one that comes back when it was done waits for the others.
    if (!all_done()) {
      if (old.done) return {.missing = missing(now)};
      record(caller.task, ErrorKind::kPeerLost, "the task restarted while the group was running");
    }
    mark_gone(member->second);
  }

  auto joiner = joiners_.find(caller.task);
  if (joiner != joiners_.end() && joiner->second.incarnation != caller.incarnation &&
      now - joiner->second.last_heard <= options_.heartbeat_timeout) {
    return wait_as_rival(caller, now);
  }
  rivals_.erase({caller.task, caller.incarnation});
  failed_starts_.erase(caller.task);
  if (!failed_starts_.empty()) {
    abandon_join(caller);
    heard_.insert(caller.task);
    return {.state = Verdict::State::kFailed, .failure = failed_starts_.begin()->second};
  }
  heard_.clear();
  if (joiners_.empty() && running_) {
    for (auto& [task, since] : missing_since_) since = now;
  }
  left_.erase(caller.task);
  joiners_[caller.task] = {.incarnation = caller.incarnation, .rank = rank, .last_heard = now};
  if (joiners_.size() < options_.roster.size()) return {.missing = missing(now)};
  form_group(now);
  return {.state = Verdict::State::kReady};
}

void CoordinatorState::form_group(double now) {
  epoch_ = std::max(epoch_ + 1, options_.first_epoch);
  if (failure_) last_failure_ = failure_;
  failure_.reset();
  std::erase_if(members_, [](const auto& item) { return item.second.rank >= 0; });
  for (const auto& [task, joiner] : joiners_) {
    members_[task] = {.incarnation = joiner.incarnation,
                      .rank = joiner.rank,
                      .last_heard = now,
                      .phase = Phase::kBuilding};
  }
  joiners_.clear();
  rivals_.clear();
  for (auto& [task, since] : missing_since_) since = now;
  barriers_.clear();
  store_.clear();
  model_ = {};
  watch_ =
      ProgressWatch(static_cast<int>(options_.roster.size()), patience(), Phase::kBuilding, now);
  running_ = true;
}

void CoordinatorState::abandon_join(const Caller& caller) {
  auto joiner = joiners_.find(caller.task);
  if (joiner != joiners_.end() && joiner->second.incarnation == caller.incarnation)
    joiners_.erase(joiner);
  rivals_.erase({caller.task, caller.incarnation});
}

std::vector<MissingTask> CoordinatorState::missing(double now) const {
  std::vector<MissingTask> result;
  if (running_ && !failure_ && joiners_.empty()) return result;
  for (const RosterEntry& entry : options_.roster) {
    if (!joiners_.contains(entry.task)) {
      result.push_back({entry.task, entry.address, now - missing_since_.at(entry.task),
                        left_.contains(entry.task) ? "which was told to stop" : ""});
    }
  }
  return result;
}

// --- liveness ---

HeartbeatReply CoordinatorState::heartbeat(const Caller& caller, Phase phase, int64_t step,
                                           double now) {
  Member* member = find(caller);
  if (!member) return {.failure = failure_for(caller), .epoch = epoch_};
  member->last_heard = now;
  // A beat alone is no progress.
  const bool moved = step != member->step || phase != member->phase;
  if (moved && member->rank >= 0) watch_.report(member->rank, phase, step, now);
  member->step = step;
  member->phase = phase;
  return {.failure = failure_, .all_done = all_done(), .epoch = epoch_};
}

void CoordinatorState::connected(const Caller& caller) {
  if (Member* member = find(caller)) {
    ++member->connections;
    member->disconnected_since.reset();
  }
}

void CoordinatorState::disconnected(const Caller& caller, double now) {
  if (Member* member = find(caller)) {
    if (member->connections > 0 && --member->connections > 0) return;
    if (!member->disconnected_since) member->disconnected_since = now;
  }
}

int CoordinatorState::connections() const {
  return static_cast<int>(std::ranges::count_if(
      members_, [](const auto& item) { return item.second.connections > 0; }));
}

void CoordinatorState::tick(double now) {
  if (const double gap = standstill(&last_tick_, now, options_.heartbeat_timeout / 2); gap > 0) {
    for (auto& [task, member] : members_) {
      member.last_heard = moved_on(member.last_heard, gap, now);
      if (member.disconnected_since)
        member.disconnected_since = moved_on(*member.disconnected_since, gap, now);
    }
    for (auto& [task, joiner] : joiners_) joiner.last_heard = moved_on(joiner.last_heard, gap, now);
    watch_.forgive(gap, now);
  }
  find_dead_tasks(now);
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

// --- what members do ---

Verdict CoordinatorState::declare_model(const Caller& caller, std::vector<std::string> signature) {
  const Member* member = find(caller);
  if (!member || failure_) return verdict_of_failure(caller);
  if (member->rank < 0) return refuse_observer(caller);
  std::sort(signature.begin(), signature.end());
  auto& [first_task, first] = model_;
  if (first_task.empty()) {
    first_task = caller.task;
    first = std::move(signature);
    return {.state = Verdict::State::kReady};
  }
  if (signature == first) return {.state = Verdict::State::kReady};
  record(
      caller.task, ErrorKind::kInvalidArgument,
      fmt::format("its model differs from that of {}: only {} has {}, only {} has {}",
                  readable_task(first_task), readable_task(caller.task), only_in(signature, first),
                  readable_task(first_task), only_in(first, signature)));
  return verdict_of_failure(caller);
}

Verdict CoordinatorState::barrier(const Caller& caller, const std::string& name, int64_t generation,
                                  double now) {
  const Member* member = find(caller);
  if (!member || failure_) return verdict_of_failure(caller);
  if (member->rank < 0) return refuse_observer(caller);

  if (barriers_.size() >= kMostBarriers && !barriers_.contains({name, generation})) {
    return refuse(fmt::format("barrier \"{}\" is one more than the {} that a group may have", name,
                              kMostBarriers),
                  "use the same names again and again");
  }
  Barrier& barrier =
      barriers_.try_emplace({name, generation}, Barrier{.opened = now}).first->second;
  barrier.arrived.insert(member->rank);
  if (barrier.arrived.size() == options_.roster.size()) {
    barrier.complete = true;
    // A member that asks for the next generation has heard of the one before; two back nobody asks
    // any more.
    barriers_.erase({name, generation - 2});
  }
  if (barrier.complete) return {.state = Verdict::State::kReady};
  return wait_at(barrier, caller, name, now);
}

Verdict CoordinatorState::wait_at(const Barrier& barrier, const Caller& caller,
                                  const std::string& name, double now) const {
  Verdict verdict;
  std::string ended;
  std::map<std::string, std::string> elsewhere;
  for (const auto& [task, peer] : members_) {
    if (peer.rank < 0 || barrier.arrived.contains(peer.rank)) continue;
    if (peer.done || peer.gone) {
      ended = task;
      continue;
    }
    verdict.missing.push_back({task, options_.roster[peer.rank].address, now - barrier.opened,
                               place_of(peer.phase, peer.step), is_busy(peer.phase)});
    if (const auto other = stands_at(peer.rank)) elsewhere[task] = *other;
  }
  const size_t can_come = verdict.missing.size();
  if (barrier.arrived.size() + can_come < options_.roster.size()) {
    return refuse(fmt::format("{} waits at barrier \"{}\", but {} is done and will not come",
                              readable_task(caller.task), name, readable_task(ended)),
                  "every task must pass the same barriers");
  }
  if (can_come > 0 && elsewhere.size() == can_come) {
    const auto& [task, other] = *elsewhere.begin();
    return refuse(fmt::format("{} waits at barrier \"{}\", {} at barrier \"{}\": neither can end",
                              readable_task(caller.task), name, readable_task(task), other),
                  "every task must pass the same barriers in the same order");
  }
  return verdict;
}

std::optional<std::string> CoordinatorState::stands_at(int rank) const {
  for (const auto& [key, barrier] : barriers_) {
    if (!barrier.complete && barrier.arrived.contains(rank)) return key.first;
  }
  return std::nullopt;
}

void CoordinatorState::fail(const Caller& caller, ErrorKind kind, const std::string& reason) {
  if (find(caller)) record(caller.task, kind, reason);
}

void CoordinatorState::fail_to_join(const Caller& caller, const Seat& seat, ErrorKind kind,
                                    const std::string& reason, double now) {
  // A task of another cluster, or a second process of that name, must not end what goes on without
  // it.
  const bool awaited = !running_ || failure_ || all_done();
  if (!awaited || seat.rank < 0 || refuse_join(caller, seat)) return;
  const auto joiner = joiners_.find(caller.task);
  if (joiner != joiners_.end() && now - joiner->second.last_heard <= options_.heartbeat_timeout)
    return;
  failed_starts_[caller.task] = {.task = caller.task,
                                 .rank = seat.rank,
                                 .kind = kind,
                                 .reason = reason,
                                 .phase = Phase::kJoining};
}

bool CoordinatorState::all_know_of_start_failure() const {
  return std::ranges::all_of(options_.roster, [this](const RosterEntry& entry) {
    return failed_starts_.contains(entry.task) || heard_.contains(entry.task);
  });
}

void CoordinatorState::done(const Caller& caller) {
  if (Member* member = find(caller)) {
    member->done = true;
    member->phase = Phase::kDone;
    if (member->rank >= 0) watch_.remove(member->rank);
  }
}

void CoordinatorState::leave(const Caller& caller) {
  const auto joiner = joiners_.find(caller.task);
  if (joiner != joiners_.end() && joiner->second.incarnation == caller.incarnation)
    left_.insert(caller.task);
  abandon_join(caller);
  Member* member = find(caller);
  if (!member) return;
  if (!member->done) record(caller.task, ErrorKind::kPeerLost, "it left before the run was done");
  mark_gone(*member);
}

bool CoordinatorState::all_done() const {
  return running_ && std::all_of(members_.begin(), members_.end(), [](const auto& item) {
           return item.second.rank < 0 || item.second.done;
         });
}

bool CoordinatorState::drained() const {
  // Who joins when all are done wants the next group, and may have to find it elsewhere.
  return (joiners_.empty() || all_done()) &&
         std::all_of(members_.begin(), members_.end(),
                     [](const auto& item) { return item.second.gone; });
}

bool CoordinatorState::may_connect(const Caller& caller) const {
  // A new connection may begin before the end of the old one shows.
  constexpr int kMost = 4;
  const Member* member = find(caller);
  return member != nullptr && member->connections < kMost;
}

Verdict CoordinatorState::may_use_store(const Caller& caller) const {
  const Member* member = find(caller);
  if (member != nullptr && member->rank < 0) return refuse_observer(caller);
  return wait(caller, {});
}

Verdict CoordinatorState::wait(const Caller& caller, const std::vector<std::string>& keys) const {
  if (!find(caller) || failure_) return verdict_of_failure(caller);
  return {.state = store_.has_all(keys) ? Verdict::State::kReady : Verdict::State::kWaiting};
}

}  // namespace muster::inline v0_1::plan
