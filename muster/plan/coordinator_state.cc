#include "muster/plan/coordinator_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace muster::inline v0_1::plan {
namespace {

Verdict refuse(std::string message, std::string hint = {}) {
  return {.state = Verdict::State::kRefused,
          .refusal = invalid_argument(std::move(message), std::move(hint))};
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
      members_({.heartbeat_timeout = options_.heartbeat_timeout,
                .reconnect_timeout = options_.reconnect_timeout,
                .twins_wait = true},
               now),
      joiners_({.heartbeat_timeout = options_.heartbeat_timeout, .twins_wait = true}, now) {
  if (options_.roster.empty())
    throw invalid_argument("the coordinator's roster is empty", "list at least one task");
  for (const RosterEntry& entry : options_.roster) {
    const int rank = static_cast<int>(roster_.size());
    if (!roster_.emplace(entry.task, Awaited{rank, now}).second)
      throw invalid_argument(fmt::format("the coordinator's roster lists {} twice", entry.task));
  }
  auto check = [](const char* name, double value) {
    if (!(value > 0))
      throw invalid_argument(fmt::format("{} is {}, must be positive", name, value));
  };
  check("heartbeat_timeout", options_.heartbeat_timeout);
  check("reconnect_timeout", options_.reconnect_timeout);
  check("progress_timeout", options_.progress_timeout);
  check("save_timeout", options_.save_timeout);
  check("busy_timeout", options_.busy_timeout);
  if (options_.min_members < 0 || options_.min_members > std::ssize(options_.roster)) {
    throw invalid_argument(fmt::format("min_members is {}, and there are {} tasks",
                                       options_.min_members, roster_.size()),
                           "an elastic run needs at least 1 of them, and at most all");
  }
}

Patience CoordinatorState::patience() const {
  return {.progress = options_.progress_timeout,
          .save = options_.save_timeout,
          .busy = options_.busy_timeout};
}

int CoordinatorState::rank_of(const std::string& task) const {
  const auto found = roster_.find(task);
  return found == roster_.end() ? -1 : found->second.rank;
}

std::optional<Failure> CoordinatorState::failure_for(const Caller& caller) const {
  if (members_.find(caller)) return failure_;
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
  const Membership::Member* member = members_.find(task);
  const int rank = rank_of(task);
  if (failure_ || member == nullptr || rank < 0) return;
  failure_ = Failure{.task = task,
                     .rank = rank,
                     .kind = kind,
                     .reason = std::move(reason),
                     .step = member->place.step,
                     .phase = member->place.phase};
}

// --- the group ---

std::optional<Verdict> CoordinatorState::wait_as_twin(Membership& others, const Caller& caller,
                                                      double now) {
  const Membership::Admission answer = others.knock(caller, now);
  if (answer == Membership::Admission::kTooEarly) return Verdict{.missing = missing(now)};
  if (answer != Membership::Admission::kRefused) return std::nullopt;
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
  if (rank < 0 && rank_of(caller.task) >= 0) {
    return refuse(fmt::format("{} joined as an observer, but is a member of the group",
                              readable_task(caller.task)),
                  same_cluster);
  }
  return std::nullopt;
}

Verdict CoordinatorState::join_as_observer(const Caller& caller, double now) {
  if (auto verdict = wait_as_twin(members_, caller, now)) return *verdict;
  if (members_.find(caller.task) == nullptr) {
    int64_t observers = 0;
    for (const auto& [task, member] : std::map(members_.all())) {
      if (rank_of(task) >= 0) continue;
      member.here() ? void(++observers) : members_.forget(task);
    }
    const int most = most_observers(static_cast<int>(options_.roster.size()));
    if (observers >= most) {
      return refuse(
          fmt::format("{} is one observer more than the {} that a group of {} tasks has room for",
                      readable_task(caller.task), most, options_.roster.size()));
    }
  }
  (void)members_.join(caller, now);
  return {.state = Verdict::State::kReady};
}

Verdict CoordinatorState::join(const Caller& caller, int rank, int world_size, double now,
                               const std::vector<std::string>& addresses) {
  if (auto refusal = refuse_join(caller, {rank, world_size, addresses})) return *refusal;
  if (members_.find(caller) != nullptr) {
    (void)members_.heartbeat(caller, now);
    if (failure_) return verdict_of_failure(caller);
    return {.state = Verdict::State::kReady};
  }
  if (rank < 0) return join_as_observer(caller, now);
  if (running_ && !failure_) {
    if (auto verdict = wait_as_twin(members_, caller, now)) return *verdict;
    // A group whose members are all done is over: a newcomer begins the next one, it breaks
    // nothing. Until then one that comes back when it was done waits for the others.
    if (!all_done() && group_.contains(rank)) {
      if (members_.find(caller.task)->state == Membership::State::kLeft)
        return {.missing = missing(now)};
      record(caller.task, ErrorKind::kPeerLost, "the task restarted while the group was running");
    }
    watch_.remove(rank);
  }

  if (auto verdict = wait_as_twin(joiners_, caller, now)) return *verdict;
  failed_starts_.erase(caller.task);
  if (!failed_starts_.empty()) {
    abandon_join(caller);
    heard_.insert(caller.task);
    return {.state = Verdict::State::kFailed, .failure = failed_starts_.begin()->second};
  }
  heard_.clear();
  if (joiners_.here() == 0 && running_) {
    for (auto& [task, awaited] : roster_) awaited.missing_since = now;
  }
  if (joiners_.join(caller, now) != Membership::Admission::kKnown) last_came_ = now;
  if (!may_form(now)) return {.missing = missing(now)};
  form_group(now);
  return {.state = Verdict::State::kReady};
}

bool CoordinatorState::awaits_members(double now) const {
  using State = Membership::State;
  return std::ranges::any_of(group_, [&](int rank) {
    const std::string& task = options_.roster[rank].task;
    const State state = members_.find(task)->state;
    if (state == State::kLost || gone_.contains(task) || (failure_ && failure_->task == task))
      return false;
    // One that is in a long step has not left yet. One that has left comes again at once.
    const double patience =
        state == State::kHere ? options_.progress_timeout : options_.heartbeat_timeout;
    return !joiners_.is_here(task) && now - *ended_since_ < patience;
  });
}

bool CoordinatorState::may_form(double now) {
  if (trains()) return false;
  if (running_ && !ended_since_) ended_since_ = now;
  const int64_t here = joiners_.here();
  if (here == std::ssize(options_.roster)) return true;
  if (!elastic() || here < options_.min_members || !joiners_.is_here(options_.roster[0].task))
    return false;
  if (!running_) return now - last_came_ >= options_.settle_timeout;
  return !awaits_members(now);
}

void CoordinatorState::form_group(double now) {
  epoch_ = std::max(epoch_ + 1, options_.first_epoch);
  if (failure_) last_failure_ = failure_;
  failure_.reset();
  lost_connections_.reset();
  disconnected_at_.clear();
  ended_since_.reset();
  gone_.clear();
  group_.clear();
  watch_ =
      ProgressWatch(static_cast<int>(options_.roster.size()), patience(), Phase::kBuilding, now);
  for (const RosterEntry& entry : options_.roster) {
    const int rank = roster_.at(entry.task).rank;
    members_.forget(entry.task);
    if (!joiners_.is_here(entry.task)) {
      watch_.remove(rank);
      continue;
    }
    group_.insert(rank);
    const Caller joiner{entry.task, joiners_.find(entry.task)->incarnation};
    joiners_.forget(entry.task);
    (void)members_.join(joiner, now);
    (void)members_.heartbeat(joiner, now, MemberPlace{.phase = Phase::kBuilding});
  }
  for (auto& [task, awaited] : roster_) awaited.missing_since = now;
  barriers_.clear();
  store_.clear();
  model_ = {};
  if (elastic()) store_.set(kMembersKey, fmt::format("{}", fmt::join(group_, ",")));
  running_ = true;
}

std::string CoordinatorState::shown_address(const RosterEntry& entry) const {
  const auto host = [](const std::string& address) {
    return address.substr(0, address.rfind(':'));
  };
  const RosterEntry& chief = options_.roster.front();
  const bool tells =
      !elastic() || entry.task == chief.task || host(entry.address) != host(chief.address);
  return tells ? entry.address : "";
}

std::vector<MissingTask> CoordinatorState::running_members(double now) const {
  std::vector<MissingTask> result;
  for (const int rank : group_) {
    const RosterEntry& entry = options_.roster[rank];
    const MemberPlace& place = members_.find(entry.task)->place;
    result.push_back({entry.task, shown_address(entry), now - last_came_,
                      place_of(place.phase, place.step), is_busy(place.phase)});
  }
  return result;
}

std::vector<MissingTask> CoordinatorState::missing(double now) const {
  std::vector<MissingTask> result;
  if (running_ && !failure_ && joiners_.here() == 0) return result;
  if (elastic() && trains()) return running_members(now);
  for (const RosterEntry& entry : options_.roster) {
    if (joiners_.is_here(entry.task)) continue;
    const Membership::Member* joiner = joiners_.find(entry.task);
    const bool left = joiner != nullptr && joiner->state == Membership::State::kLeft;
    result.push_back({entry.task, shown_address(entry), now - roster_.at(entry.task).missing_since,
                      left ? "which was asked to stop" : ""});
  }
  return result;
}

// --- what members do ---

std::optional<Verdict> CoordinatorState::turn_away(const Caller& caller) const {
  if (members_.find(caller) == nullptr || failure_) return verdict_of_failure(caller);
  if (rank_of(caller.task) >= 0) return std::nullopt;
  return refuse(fmt::format("{} is not a member of the group: it may watch and tell where it is",
                            readable_task(caller.task)));
}

Verdict CoordinatorState::declare_model(const Caller& caller, std::vector<std::string> signature) {
  if (auto verdict = turn_away(caller)) return *verdict;
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
  if (auto verdict = turn_away(caller)) return *verdict;
  if (barriers_.size() >= kMostBarriers && !barriers_.contains({name, generation})) {
    return refuse(fmt::format("barrier \"{}\" is one more than the {} that a group may have", name,
                              kMostBarriers),
                  "use the same names again and again");
  }
  Barrier& barrier =
      barriers_.try_emplace({name, generation}, Barrier{.opened = now}).first->second;
  barrier.arrived.insert(rank_of(caller.task));
  if (barrier.arrived.size() == group_.size()) {
    barrier.complete = true;
    // A member that asks for the next generation has heard of the one before; no member asks for
    // the one two back.
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
  for (const int rank : group_) {
    if (barrier.arrived.contains(rank)) continue;
    const auto& [task, address] = options_.roster[rank];
    const Membership::Member& peer = *members_.find(task);
    if (peer.state != Membership::State::kHere) {
      ended = task;
      continue;
    }
    verdict.missing.push_back({task, address, now - barrier.opened,
                               place_of(peer.place.phase, peer.place.step),
                               is_busy(peer.place.phase)});
    if (const auto other = stands_at(rank)) elsewhere[task] = *other;
  }
  const size_t can_come = verdict.missing.size();
  if (barrier.arrived.size() + can_come < group_.size()) {
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
  if (members_.find(caller) != nullptr) record(caller.task, kind, reason);
}

void CoordinatorState::fail_to_join(const Caller& caller, const Seat& seat, ErrorKind kind,
                                    const std::string& reason, double now) {
  // Others go on without it.
  if (elastic()) return;
  // A task of another cluster, or a second process of that name, must not end what continues
  // without it.
  const bool awaited = !running_ || failure_ || all_done();
  if (!awaited || seat.rank < 0 || refuse_join(caller, seat)) return;
  (void)joiners_.find_lost(now);
  if (joiners_.is_here(caller.task)) return;
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
  members_.done(caller);
  const int rank = rank_of(caller.task);
  if (rank >= 0 && members_.find(caller) != nullptr) watch_.remove(rank);
}

void CoordinatorState::leave(const Caller& caller, bool for_good) {
  const bool was_joining = joiners_.goodbye(caller).has_value();
  const auto left = members_.goodbye(caller);
  if (for_good && (was_joining || left)) gone_.insert(caller.task);
  if (!left) return;
  if (*left == Membership::State::kHere)
    record(caller.task, ErrorKind::kPeerLost, "it left before the run was done");
  if (const int rank = rank_of(caller.task); rank >= 0) watch_.remove(rank);
}

bool CoordinatorState::all_done() const {
  using State = Membership::State;
  return running_ && !failure_ && std::ranges::all_of(group_, [this](int rank) {
           const State state = members_.find(options_.roster[rank].task)->state;
           return state == State::kDone || state == State::kLeft;
         });
}

bool CoordinatorState::drained() const {
  // A task that joins when all are done needs the next group, which may be elsewhere.
  return (joiners_.here() == 0 || all_done()) && members_.here() == 0;
}

bool CoordinatorState::may_connect(const Caller& caller) const {
  // A new connection may begin before the end of the old one shows.
  constexpr int kMost = 4;
  const Membership::Member* member = members_.find(caller);
  return member != nullptr && member->connections < kMost;
}

Verdict CoordinatorState::wait(const Caller& caller, const std::vector<std::string>& keys) const {
  if (members_.find(caller) == nullptr || failure_) return verdict_of_failure(caller);
  return {.state = store_.has_all(keys) ? Verdict::State::kReady : Verdict::State::kWaiting};
}

}  // namespace muster::inline v0_1::plan
