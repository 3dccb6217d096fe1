#include "muster/distribute/internal/merge_point.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute {

MergePoint::MergePoint(size_t replicas, double timeout, int first_replica)
    : timeout_(timeout), first_replica_(first_replica), members_(replicas) {}

void MergePoint::enter(size_t replica) {
  const std::lock_guard lock(mutex_);
  ++members_[replica].begun;
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

void MergePoint::meet(size_t replica, const std::string& kind, void* mine,
                      const std::function<void(const std::vector<void*>&)>& body) {
  std::unique_lock lock(mutex_);
  Member& member = members_[replica];
  member.arrived = true;
  member.brought = mine;
  member.kind = kind;
  ++arrived_;
  changed_.notify_all();
  const uint64_t meeting = met_;
  const bool leads = replica == 0;
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout_);
  const auto complete = [&] { return arrived_ == members_.size(); };
  for (;;) {
    if (failure_) std::rethrow_exception(failure_);
    if (met_ != meeting) return;
    if (!failure_) failure_ = obstacle(replica);
    if (failure_) {
      changed_.notify_all();
      continue;
    }
    if (leads && complete()) break;
    if (complete()) {
      // The first one is at it, with what this one brought: nobody can leave meanwhile.
      changed_.wait(lock);
      continue;
    }
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && !complete()) {
      size_t missing = 0;
      while (members_[missing].arrived) ++missing;
      failure_ = std::make_exception_ptr(Error(
          ErrorKind::kTimeout,
          fmt::format("replica {} did not come to merge() within {:g} s, where replica {} waited",
                      first_replica_ + static_cast<int>(missing), timeout_.count(),
                      first_replica_ + static_cast<int>(replica)),
          "see what its function waits for; ScopeOptions.merge_timeout is the patience"));
      changed_.notify_all();
    }
  }
  std::vector<void*> brought;
  for (const Member& each : members_) brought.push_back(each.brought);
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
  failure_ = thrown;
  changed_.notify_all();
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace muster::inline v0_1::distribute
