// A launcher's connection to the rendezvous: reports what the launcher says of itself, hears the
// state of the run, and connects again when the connection breaks. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/cluster/job_credentials.h"
#include "muster/nodes/rendezvous_link.h"

namespace muster::inline v0_1::nodes {

struct ClientOptions {
  std::string address{};  // of the rendezvous: "host:port"
  cluster::Job job{};
  uint64_t process = 0;  // a random number of this process
  RendezvousLimits limits{};
};

class RendezvousClient {
 public:
  // Connects on a thread of its own from now on, which has the signal mask of this one.
  RendezvousClient(ClientOptions options, NodeReport report);
  ~RendezvousClient();
  RendezvousClient(const RendezvousClient&) = delete;
  RendezvousClient& operator=(const RendezvousClient&) = delete;

  // Changes the report, which is sent at once.
  void update(const std::function<void(NodeReport&)>& change);
  // What was heard last; RunView::rendezvous is 0 before. Throws InvalidArgument when this launcher
  // does not belong to the run.
  RunView view() const;
  // Nothing while the rendezvous answers.
  std::optional<RendezvousLoss> loss() const;
  // Sends the report kLeaving, at most for this long.
  void leave(double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::nodes
