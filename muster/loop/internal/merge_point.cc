#include "muster/loop/internal/merge_point.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute {

MergePoint::MergePoint(size_t replicas, double timeout, int first_replica)
    : timeout_(timeout), first_replica_(first_replica), members_(replicas) {}

void MergePoint::enter(size_t replica, int64_t step) {
  const std::lock_guard lock(mutex_);
  ++members_[replica].begun;
  members_[replica].step = step;
  members_[replica].meetings = 0;
}

void MergePoint::leave(size_t replica) {
  const std::lock_guard lock(mutex_);
  ++members_[replica].ended;
  changed_.notify_all();
}

void MergePoint::fail(size_t replica) {
  const std::lock_guard lock(mutex_);
  members_[replica].failed = true;
  changed_.notify_all();
}

std::exception_ptr MergePoint::obstacle(size_t replica) const {
  for (size_t other = 0; other < members_.size(); ++other) {
    const Member& member = members_[other];
    if (member.failed || member.ended >= members_[replica].begun) {
      return std::make_exception_ptr(invalid_argument(
          fmt::format("replica {} waited in merge() for replica {}, whose function has ended",
                      first_replica_ + static_cast<int>(replica),
                      first_replica_ + static_cast<int>(other)),
          "all replicas make the same calls of merge(), in the same order"));
    }
    if (member.arrived && member.kind != members_[replica].kind) {
      return std::make_exception_ptr(
          invalid_argument(fmt::format("replicas {} and {} came to different calls of merge()",
                                       first_replica_ + static_cast<int>(replica),
                                       first_replica_ + static_cast<int>(other)),
                           "all replicas make the same calls of merge(), in the same order"));
    }
  }
  return nullptr;
}

void MergePoint::give_up_missing(size_t waiting) {
  size_t missing = 0;
  while (members_[missing].arrived) ++missing;
  failure_ = std::make_exception_ptr(
      Error(ErrorKind::kTimeout,
            fmt::format("replica {} did not come to merge() within {:g} s, where replica {} waited",
                        first_replica_ + static_cast<int>(missing), timeout_.count(),
                        first_replica_ + static_cast<int>(waiting)),
            "see what its function waits for; ScopeOptions.merge_timeout is the patience"));
  changed_.notify_all();
}

void MergePoint::give_up_body(size_t waiting) {
  const Member& leader = members_.front();
  failure_ = std::make_exception_ptr(Error(
      ErrorKind::kTimeout,
      fmt::format("the function given to merge() did not return within {:g} s: replica {} runs it, "
                  "in merge() number {} of its call after step {}, where replica {} waited",
                  timeout_.count(), first_replica_, leader.meetings, leader.step,
                  first_replica_ + static_cast<int>(waiting)),
      "see what that function waits for; ScopeOptions.merge_timeout is the patience"));
  changed_.notify_all();
}

void MergePoint::meet(size_t replica, const std::string& kind, Brought mine,
                      const std::function<void(const std::vector<Brought>&)>& body) {
  std::unique_lock lock(mutex_);
  Member& member = members_[replica];
  member.arrived = true;
  member.brought = std::move(mine);
  member.kind = kind;
  ++member.meetings;
  const auto complete = [&] { return arrived_ == members_.size(); };
  ++arrived_;
  if (complete()) complete_at_ = Clock::now();
  changed_.notify_all();
  const uint64_t meeting = met_;
  const bool leads = replica == 0;
  const auto patience = std::chrono::duration_cast<Clock::duration>(timeout_);
  const auto deadline = Clock::now() + patience;
  for (;;) {
    if (failure_) std::rethrow_exception(failure_);
    if (met_ != meeting) return;
    if (!failure_) failure_ = obstacle(replica);
    if (failure_) {
      changed_.notify_all();
      continue;
    }
    if (leads && complete()) break;
    const bool running = complete();  // the first one is at it
    const auto until = running ? complete_at_ + patience : deadline;
    const bool late = changed_.wait_until(lock, until) == std::cv_status::timeout;
    if (!late || failure_ || met_ != meeting || complete() != running) continue;
    running ? give_up_body(replica) : give_up_missing(replica);
  }
  std::vector<Brought> brought;
  for (Member& each : members_) brought.push_back(std::move(each.brought));
  lock.unlock();
  std::exception_ptr thrown;
  try {
    body(brought);
  } catch (...) {
    thrown = std::current_exception();
  }
  lock.lock();
  for (Member& each : members_) each.arrived = false;
  arrived_ = 0;
  ++met_;
  // The waiting replicas may have given up.
  if (!failure_) failure_ = thrown;
  changed_.notify_all();
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace muster::inline v0_1::distribute
