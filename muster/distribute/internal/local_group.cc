#include "muster/distribute/internal/local_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::inline v0_1::distribute {
namespace {

using plan::Phase;

}  // namespace

LocalGroup::LocalGroup(int size, const Patience& patience, int first_replica)
    : progress_timeout_(patience.progress),
      save_timeout_(patience.save),
      first_replica_(first_replica),
      texts_(static_cast<size_t>(size)),
      members_(static_cast<size_t>(size)) {
  for (Member& member : members_) member.last_progress = Clock::now();
}

void LocalGroup::report(int replica, Phase phase, int64_t step) {
  std::lock_guard lock(mutex_);
  Member& member = members_[static_cast<size_t>(replica)];
  member.phase = phase;
  member.step = step;
  member.last_progress = Clock::now();
}

std::optional<LocalGroup::Stuck> LocalGroup::find_stuck(Clock::time_point opened, int waiting,
                                                        const std::string& what) {
  const auto now = Clock::now();
  const auto place = [&] {
    return fmt::format("while replica {} waited at '{}'", first_replica_ + waiting, what);
  };
  bool busy = false;
  for (size_t replica = 0; replica < members_.size(); ++replica) {
    const Member& member = members_[replica];
    if (member.arrived || (member.phase == Phase::kTraining && !member.outside)) continue;
    busy = true;
    if (member.outside || member.phase != Phase::kSaving) continue;
    if (now - std::max(member.last_progress, opened) <= save_timeout_) continue;
    return Stuck{static_cast<int>(replica),
                 Error(ErrorKind::kTimeout,
                       fmt::format("saving a checkpoint at step {} took more than {:.1f} s {}",
                                   member.step, save_timeout_.count(), place()),
                       "see whether the disk of model_dir is slow or full, or what a hook does; "
                       "save_timeout_seconds of the strategy is the patience")};
  }
  if (busy) {
    last_busy_ = now;
    return std::nullopt;
  }
  for (size_t replica = 0; replica < members_.size(); ++replica) {
    const Member& member = members_[replica];
    if (member.arrived) continue;
    if (now - std::max({member.last_progress, opened, last_busy_}) <= progress_timeout_) continue;
    return Stuck{static_cast<int>(replica),
                 Error(ErrorKind::kTimeout,
                       fmt::format("no progress for {:.1f} s after step {} {}",
                                   progress_timeout_.count(), member.step, place()),
                       "see what its model function, its input or a hook waits for; "
                       "progress_timeout_seconds of the strategy is the patience")};
  }
  return std::nullopt;
}

std::vector<std::string> LocalGroup::exchange(int replica, const std::string& what,
                                              std::string text) {
  std::unique_lock lock(mutex_);
  if (failure_) throw *failure_;
  if (arrived_ == 0) {
    what_ = what;
    first_ = replica;
  } else if (what != what_) {
    const Error error = invalid_argument(
        fmt::format("replica {} came to '{}' and replica {} to '{}'", first_replica_ + first_,
                    what_, first_replica_ + replica, what),
        "all replicas make the same calls in the same order");
    lock.unlock();
    fail(replica, error);
    throw error;
  }
  texts_[static_cast<size_t>(replica)] = std::move(text);
  const uint64_t meeting = meeting_;
  if (++arrived_ == texts_.size()) {
    // Nobody can complete the next meeting before all have taken this one's result and come again.
    result_ = std::exchange(texts_, std::vector<std::string>(texts_.size()));
    arrived_ = 0;
    for (Member& member : members_) member.arrived = false;
    ++meeting_;
    changed_.notify_all();
    return result_;
  }
  members_[static_cast<size_t>(replica)].arrived = true;
  const auto opened = Clock::now();
  const auto look = std::min<std::chrono::duration<double>>(
      std::min(progress_timeout_, save_timeout_) / 4, std::chrono::seconds(1));
  while (!changed_.wait_for(lock, look, [&] { return meeting_ != meeting || failure_; })) {
    const auto stuck = find_stuck(opened, replica, what);
    if (!stuck) continue;
    lock.unlock();
    fail(stuck->replica, stuck->error);
    lock.lock();
  }
  if (meeting_ == meeting) throw *failure_;
  return result_;
}

void LocalGroup::fail(int replica, const Error& error) {
  std::vector<std::function<void(const Error&)>> callbacks;
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = Error(error.kind(),
                     fmt::format("replica {}: {}", first_replica_ + replica, error.message()),
                     error.hint());
    callbacks = callbacks_;
    changed_.notify_all();
  }
  for (const auto& callback : callbacks) callback(error);
}

void LocalGroup::leave(int replica) {
  fail(replica, Error(ErrorKind::kPeerLost, "it ended before the others"));
}

std::optional<Error> LocalGroup::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void LocalGroup::on_failure(std::function<void(const Error& error)> callback) {
  std::lock_guard lock(mutex_);
  callbacks_.push_back(std::move(callback));
}

}  // namespace muster::inline v0_1::distribute
