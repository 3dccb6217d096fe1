// The client's end of the coordinator's protocol: one call per request, each with its own time
// limit. Thread-safe. Network trouble is an Error in the Result: NotFound (the host has no
// address), Unavailable (no process listens there), PeerLost (the connection was closed), Timeout
// (no answer in time), Cancelled (close() was called); InvalidArgument if the two ends belong to
// different jobs or versions.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/base/result.h"
#include "muster/net/coordinator_messages.h"

namespace muster::inline v0_1::net {

class CoordinatorChannel {
 public:
  virtual ~CoordinatorChannel() = default;

  // One request each: the answer is that of CoordinatorHandler's method of the same name.
  virtual Result<Reply> join(const JoinRequest& request, double timeout_seconds) = 0;
  virtual Result<Reply> beat(const BeatRequest& request, double timeout_seconds) = 0;
  virtual Result<Reply> declare_model(const ModelRequest& request, double timeout_seconds) = 0;
  virtual Result<Reply> barrier(const BarrierRequest& request, double timeout_seconds) = 0;
  virtual Result<Reply> store(const StoreRequest& request, double timeout_seconds) = 0;
  virtual Result<Reply> fail(const FailRequest& request, double timeout_seconds) = 0;
  virtual Result<Reply> goodbye(const GoodbyeRequest& request, double timeout_seconds) = 0;

  // Calls `receive` for everything the server pushes; returns when the connection ends, with its
  // reason, or after close(). This is the one call without a time limit: heartbeats cover a silent
  // server.
  virtual Status watch(const plan::Caller& who,
                       const std::function<void(const Reply&)>& receive) = 0;

  // Ends calls in progress with Cancelled, and all later ones.
  virtual void close() = 0;
};

// Makes a channel to "host:port".
using ConnectCoordinator =
    std::function<std::unique_ptr<CoordinatorChannel>(const std::string& address)>;

}  // namespace muster::inline v0_1::net
