// Where ranks that are threads of one process meet: they read each other's buffers directly. No
// LibTorch here. Thread safety: each rank calls execute() from one thread at a time; the rest from
// any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/collectives/internal/operation.h"

namespace muster::inline v0_1::internal {

class ThreadHub {
 public:
  ThreadHub(int size, std::chrono::milliseconds timeout);
  int size() const { return size_; }

  // Takes part in `operation` as `rank`; returns when the rank's buffers are complete. No other
  // rank reads them any more then, also when it throws. Throws PeerLost, Timeout, Cancelled or
  // InvalidArgument, as communicator.h says.
  void execute(int rank, const Operation& operation);
  // Ends what `rank` and, because of it, the others are blocked in.
  void abort(int rank, ErrorKind kind, const std::string& reason);
  // `rank` will not come again; `error` says why, when it failed.
  void leave(int rank, const Error* error);

 private:
  // Waits for all ranks; `operation` is what `rank` waits in. From then on `rank` may read the
  // others' buffers, until it comes to the next meeting or calls stop_reading().
  void meet(int rank, const Operation& operation);
  void stop_reading(int rank);

  const int size_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // What each rank is in, for odd and even operations: a rank may be one operation ahead of one
  // that still reads here.
  std::vector<Operation> operations_[2];
  std::vector<uint64_t> arrived_;      // meetings each rank has come to
  std::atomic<uint64_t> meeting_ = 0;  // meetings completed; changes under the mutex
  std::vector<bool> reading_;          // ranks that may be in others' buffers now
  struct Gone {
    int rank;
    ErrorKind kind;
    std::string reason;
  };
  std::optional<Gone> gone_;  // the first who left
};

}  // namespace muster::inline v0_1::internal
