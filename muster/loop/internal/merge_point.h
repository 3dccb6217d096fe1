// The exchange of values between the replicas of one process in the middle of their functions.
// Thread safety: all calls from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace muster::inline v0_1::distribute {

class MergePoint {
 public:
  // `timeout`: seconds after which a replica that does not come, and then a function that does not
  // return, are given up; `first_replica` is the id of the first one here, for messages.
  MergePoint(size_t replicas, double timeout, int first_replica);

  // The argument of a replica. Kept until `body` has returned, because the replica may be gone by
  // then.
  using Brought = std::shared_ptr<void>;
  // Waits until all have come and calls `body` with their arguments, by replica, once, in the first
  // one's thread; then all return. Throws the exception of `body`; Timeout naming a replica that
  // did not come in time, or the first one, when `body` does not return in time; InvalidArgument
  // naming one whose function ended before, and when `kind` differs.
  void meet(size_t replica, const std::string& kind, Brought mine,
            const std::function<void(const std::vector<Brought>&)>& body);

  // enter(): a call of the replica's function begins, after `step`. leave(): the call has ended, so
  // replicas that still wait for this one in the same call are notified that it will not come.
  void enter(size_t replica, int64_t step);
  void leave(size_t replica);
  // The replica will not come again.
  void fail(size_t replica);

 private:
  struct Member {
    uint64_t begun = 0, ended = 0;  // calls of its function
    int64_t step = 0;               // of the last one
    int meetings = 0;               // its exchanges in that call
    bool failed = false;
    bool arrived = false;
    Brought brought;
    std::string kind;
  };
  using Clock = std::chrono::steady_clock;
  void give_up_missing(size_t waiting);
  void give_up_body(size_t waiting);
  // The reason why the exchange cannot take place; nullptr if there is none.
  std::exception_ptr obstacle(size_t replica) const;

  const std::chrono::duration<double> timeout_;
  const int first_replica_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Member> members_;
  size_t arrived_ = 0;
  Clock::time_point complete_at_;  // when the last one came
  uint64_t met_ = 0;               // meetings that are over
  std::exception_ptr failure_;     // set when no replica waits any more
};

}  // namespace muster::inline v0_1::distribute
