// Serves a Rendezvous to the launchers of all machines, from the launcher of the first one.
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "muster/cluster/job_credentials.h"
#include "muster/nodes/rendezvous.h"

namespace muster::inline v0_1::nodes {

class RendezvousServer {
 public:
  // Listens at "host:port" from now on; port 0 takes a free one. Throws Unavailable, naming the
  // address, when the port is in use or the host is not this machine, and InvalidArgument when
  // other machines can connect and nothing keeps unauthenticated peers out.
  RendezvousServer(const std::string& address, const cluster::Job& job, RendezvousOptions options);
  // Ends all connections.
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  // "host:port", with the port that was taken.
  std::string address() const;
  // Waits until the run is over and all launchers that live have heard it, at most this long.
  // Returns whether they have.
  bool wait_for_all(double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::nodes
