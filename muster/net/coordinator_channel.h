// The client's end of the coordinator's protocol: one call per request, each with its own time
// limit. Thread-safe. Network trouble is an Error in the Result: Unavailable (no connection),
// Timeout (no answer in time), Cancelled (close() was called), Internal.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/base/result.h"
#include "muster/net/coordinator_messages.h"

namespace muster::inline v0_1::net {

class CoordinatorChannel {
 public:
  // Connects when first used, and again (after at most 1 s) whenever the connection is lost.
  explicit CoordinatorChannel(std::string address);
  ~CoordinatorChannel();
  CoordinatorChannel(const CoordinatorChannel&) = delete;
  CoordinatorChannel& operator=(const CoordinatorChannel&) = delete;

  // One request each: what CoordinatorHandler's method of that name answers.
  Result<Reply> join(const JoinRequest& request, double timeout_seconds);
  Result<Reply> beat(const BeatRequest& request, double timeout_seconds);
  Result<Reply> declare_model(const ModelRequest& request, double timeout_seconds);
  Result<Reply> barrier(const BarrierRequest& request, double timeout_seconds);
  Result<Reply> store(const StoreRequest& request, double timeout_seconds);
  Result<Reply> fail(const FailRequest& request, double timeout_seconds);
  Result<Reply> goodbye(const GoodbyeRequest& request, double timeout_seconds);

  // Calls `receive` for everything the server pushes; returns when the connection ends, with its
  // reason, or after close(). This is the one call without a time limit: heartbeats cover a silent
  // server.
  Status watch(const MemberId& who, const std::function<void(const Reply&)>& receive);

  // Ends calls in progress with Cancelled, and all later ones.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::net
