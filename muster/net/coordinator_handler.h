// Answers the coordinator's requests, however they arrive.
#pragma once

#include <functional>

#include "muster/net/coordinator_messages.h"

namespace muster::inline v0_1::net {

// The queries of a handler about the call it serves. Valid during the call.
struct Call {
  std::function<bool()> cancelled{};  // the peer is gone, or the server stops
};

// Answers requests; called from many threads at once. Waits must be bounded (a few seconds) and end
// soon when call.cancelled(). An exception becomes a refusal with the error's kind, message and
// hint.
class CoordinatorHandler {
 public:
  virtual ~CoordinatorHandler() = default;
  // One method for each request; it returns the reply the peer gets.
  virtual Reply join(const JoinRequest& request, const Call& call) = 0;
  virtual Reply beat(const BeatRequest& request) = 0;
  virtual Reply declare_model(const ModelRequest& request) = 0;
  virtual Reply barrier(const BarrierRequest& request, const Call& call) = 0;
  virtual Reply store(const StoreRequest& request, const Call& call) = 0;
  virtual Reply fail(const FailRequest& request) = 0;
  virtual Reply goodbye(const GoodbyeRequest& request) = 0;
  // One thread per member: stays until the peer is gone or `send` answers false.
  virtual void watch(const WatchRequest& request, const Call& call,
                     const std::function<bool(const Reply&)>& send) = 0;
};

}  // namespace muster::inline v0_1::net
