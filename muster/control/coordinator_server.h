// The coordinator over the network: the chief's process serves it, every task of the cluster talks
// to it. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/cluster/job_credentials.h"
#include "muster/plan/coordinator_state.h"

namespace muster::inline v0_1::control {

// Where the coordinator listens, and whom it waits for.
struct ServerOptions {
  std::string address{};  // the chief's "host:port" in TF_CONFIG; port 0 takes a free one
  // Roster and time limits; first_epoch 0 means: from the date, so that a chief that restarts leads
  // a group with a higher epoch.
  plan::CoordinatorOptions group{};
  cluster::Job job{};              // peers without its token are refused
  Clock* clock = &system_clock();  // outlives the server
  ServerOptions() { group.first_epoch = 0; }
};

class CoordinatorServer {
 public:
  // Throws Unavailable, naming the address, when the port is in use; InvalidArgument for bad
  // options.
  explicit CoordinatorServer(ServerOptions options);
  // Stops without waiting for anybody.
  ~CoordinatorServer();
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  int port() const;
  // Where clients on this machine reach it: the address as given, with the real port.
  std::string address() const;
  std::optional<plan::Failure> first_failure() const;
  // Whether every task of the group has told why it does not come, or was told that another does
  // not: no task is left that would wait in vain.
  bool all_know_of_start_failure() const;
  // How many members have the connection open that tells at once when their process is killed.
  // Before, only the missing heartbeat does.
  int connections() const;
  // How many tasks wait for the next group while the present one runs, in an elastic run.
  int64_t newcomers() const;
  // The last refused peer and the reason, as the log says it; "" if none was refused.
  std::string last_refusal() const;

  // Waits until every member has said goodbye or is lost, at most `goodbye_timeout`, then closes
  // the port: a clean end never looks like a lost coordinator to the others. Answers whether all
  // had left in time. Idempotent.
  bool stop(double goodbye_timeout = 10);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::control
