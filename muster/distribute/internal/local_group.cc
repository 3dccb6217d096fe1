#include "muster/distribute/internal/local_group.h"

#include <fmt/format.h>

#include <utility>

namespace muster::inline v0_1::distribute {

std::vector<std::string> LocalGroup::exchange(int replica, const std::string& what,
                                              std::string text) {
  std::unique_lock lock(mutex_);
  if (failure_) throw *failure_;
  if (arrived_ == 0) {
    what_ = what;
    first_ = replica;
  } else if (what != what_) {
    const Error error = invalid_argument(
        fmt::format("replica {} came to '{}' and replica {} to '{}'", first_, what_, replica, what),
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
    ++meeting_;
    changed_.notify_all();
    return result_;
  }
  changed_.wait(lock, [&] { return meeting_ != meeting || failure_; });
  if (meeting_ == meeting) throw *failure_;
  return result_;
}

void LocalGroup::fail(int replica, const Error& error) {
  std::vector<std::function<void(const Error&)>> callbacks;
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ =
        Error(error.kind(), fmt::format("replica {}: {}", replica, error.message()), error.hint());
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
