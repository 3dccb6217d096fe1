#include "muster/distribute/internal/local_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::inline v0_1::distribute {

LocalGroup::LocalGroup(int size, const Patience& patience, int first_replica, Clock& clock)
    : clock_(clock),
      patience_(patience),
      first_replica_(first_replica),
      texts_(static_cast<size_t>(size)),
      watch_(size, patience, plan::Phase::kBuilding, now()) {}

void LocalGroup::report(int replica, plan::Phase phase, int64_t step) {
  std::lock_guard lock(mutex_);
  watch_.report(replica, phase, step, now());
}

Error LocalGroup::error_of(const plan::ProgressWatch::Stuck& stuck, int waiting,
                           const std::string& what) const {
  const std::string place =
      fmt::format("while replica {} waited at '{}'", first_replica_ + waiting, what);
  if (stuck.phase == plan::Phase::kSaving) {
    return Error(ErrorKind::kTimeout,
                 fmt::format("saving a checkpoint at step {} took more than {:.1f} s {}",
                             stuck.step, patience_.save, place),
                 "see whether the disk of model_dir is slow or full, or what a hook does; "
                 "save_timeout of the strategy is the patience");
  }
  if (stuck.phase == plan::Phase::kBuilding || stuck.phase == plan::Phase::kEvaluating) {
    return Error(ErrorKind::kTimeout,
                 fmt::format("{} {:.0f} s {}", stuck.complaint(), stuck.seconds, place),
                 "see what its model function or its input waits for");
  }
  return Error(ErrorKind::kTimeout,
               fmt::format("no progress for {:.1f} s after step {} {}", patience_.progress,
                           stuck.step, place),
               "see what its model function, its input or a hook waits for; "
               "progress_timeout of the strategy is the patience");
}

std::vector<std::string> LocalGroup::exchange(int replica, const std::string& what,
                                              std::string text) {
  std::unique_lock lock(mutex_);
  if (failure_) throw *failure_;
  if (arrived_.empty()) {
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
  arrived_.insert(replica);
  if (arrived_.size() == texts_.size()) {
    // No replica can complete the next exchange before all have taken this one's result and come
    // again.
    result_ = std::exchange(texts_, std::vector<std::string>(texts_.size()));
    arrived_.clear();
    ++meeting_;
    changed_.notify_all();
    return result_;
  }
  const double opened = now();
  const Duration look =
      from_seconds(std::min(std::min(patience_.progress, patience_.save) / 4, 1.0));
  const auto over = [&] { return meeting_ != meeting || failure_; };
  while (!clock_.wait_for(lock, changed_, look, over)) {
    const auto stuck = watch_.find_stuck(arrived_, opened, now());
    if (!stuck) continue;
    const Error error = error_of(*stuck, replica, what);
    lock.unlock();
    fail(stuck->member, error);
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
