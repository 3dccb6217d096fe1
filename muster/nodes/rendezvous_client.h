// A launcher's connection to the rendezvous: reports what the launcher says of itself, hears the
// state of the run, and connects again when the connection breaks. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/cluster/job_credentials.h"
#include "muster/nodes/rendezvous.h"

namespace muster::inline v0_1::nodes {

struct ClientOptions {
  std::string address{};  // of the rendezvous: "host:port"
  cluster::Job job{};
  uint64_t process = 0;  // a random number of this process
  // Seconds without a word after which the rendezvous counts as lost.
  double heartbeat_timeout = 6;
  // Seconds for which no process may listen at its address before it counts as ended.
  double reconnect_timeout = 2;
};

// Why the rendezvous is lost.
struct RendezvousLoss {
  std::string reason{};
  bool ended = false;  // its process has ended; else it may answer again
  double seconds = 0;  // since the last word of it
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
  // Nothing while the rendezvous answers, and before it has answered once.
  std::optional<RendezvousLoss> loss() const;
  // Why the last try to connect failed; "" when it did not.
  std::string last_error() const;
  // Sends the report kLeaving, at most for this long.
  void leave(double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::nodes
