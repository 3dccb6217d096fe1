// The coordinator's gRPC server: it carries requests to a handler and knows nothing of what they
// mean.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/net/coordinator_messages.h"

namespace muster::inline v0_1::net {

// What a handler may ask about the call it serves. Valid during the call.
struct Call {
  std::function<bool()> cancelled;  // the peer is gone, or the server stops
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
  virtual void watch(const MemberId& who, const Call& call,
                     const std::function<bool(const Reply&)>& send) = 0;
};

class CoordinatorService {
 public:
  // Serves `handler` (which must outlive this) at "host:port"; port 0 takes a free one. A loopback
  // host binds only loopback; any other name binds all interfaces, because the name of a task in
  // TF_CONFIG often belongs to a load balancer or a NAT and is not an address of this machine.
  // Throws Unavailable when the port is in use.
  CoordinatorService(CoordinatorHandler& handler, const std::string& address);
  ~CoordinatorService();
  CoordinatorService(const CoordinatorService&) = delete;
  CoordinatorService& operator=(const CoordinatorService&) = delete;

  int port() const;
  // Ends all calls (the handler sees them cancelled) and closes the port. Idempotent.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::net
