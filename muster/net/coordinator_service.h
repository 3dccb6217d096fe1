// The coordinator's server: it carries requests to a handler and does not interpret them.
#pragma once

#include <memory>
#include <string>

#include "muster/cluster/job_credentials.h"
#include "muster/net/coordinator_handler.h"

namespace muster::inline v0_1::net {

class CoordinatorService {
 public:
  // Serves `handler` (which must outlive this) at "host:port"; port 0 takes a free one. A loopback
  // host, and a numeric address of this machine, binds only that; any other name binds all
  // interfaces, because the name of a task in TF_CONFIG often belongs to a load balancer or a NAT
  // and is not an address of this machine. Tasks that do not prove that they belong to `job` are
  // refused before they reach the handler. `tasks`, the size of the group, scales how many
  // connections there may be (see docs/security.md). Throws Unavailable when the port is in use,
  // InvalidArgument for certificates that cannot be used, and if other machines can connect and
  // nothing keeps unauthenticated peers out.
  CoordinatorService(CoordinatorHandler& handler, const std::string& address,
                     const cluster::Job& job = {}, int tasks = 1);
  ~CoordinatorService();
  CoordinatorService(const CoordinatorService&) = delete;
  CoordinatorService& operator=(const CoordinatorService&) = delete;

  int port() const;
  // The last peer that it refused and why, as the log says it; "" if it refused none.
  std::string last_refusal() const;
  // Ends all calls (the handler sees them cancelled) and closes the port. Idempotent.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::net
