// Does with the documents of a job what Kubernetes does, for tests: starts the command of each pod
// as a process, with the variables and the name it has there, and starts it again as the Job's
// policy says. Thread safety: one thread, the test's.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/end_to_end/program.h"

namespace muster::testing {

// Gives this process, and those that it starts, a network of their own, in which each host of
// `hosts` has an address of the loopback interface. Returns false where the kernel does not let us.
bool enter_network(const std::vector<std::string>& hosts);

class PlayedKubelet {
 public:
  // Jobs, their Service, and the Secret. `network` tells whether the pods' names are known: call
  // enter_network() with hosts() before start().
  explicit PlayedKubelet(std::vector<nlohmann::json> documents);

  // The names by which pods find each other: "a-worker-1.a".
  std::vector<std::string> hosts() const;
  // Starts all pods.
  void start();
  // Sends SIGKILL to the process of a pod, as a node that is out of memory does.
  void kill_pod(const std::string& pod);
  // Looks after the pods until all Jobs have ended or one has failed. Returns whether all
  // succeeded.
  bool run(std::chrono::seconds deadline = std::chrono::seconds(90));

  // What the process of a pod, or an earlier one of it, prints or printed: attempt 0 is the first.
  std::string output(const std::string& pod, size_t attempt = 0) const;
  // Exit codes of the pod's processes so far, as Kubernetes sees them.
  std::vector<int> exit_codes(const std::string& pod) const;
  // The process that runs now.
  Program& running(const std::string& pod);

 private:
  struct Pod {
    const nlohmann::json* job = nullptr;
    int index = 0;
    std::vector<std::unique_ptr<Program>> processes;
    std::vector<int> exit_codes;
  };

  void start(Pod& pod);
  Variables variables_of(const Pod& pod) const;
  // Whether the Job goes on after this exit code, and how.
  bool may_restart(const Pod& pod, int code);

  std::vector<nlohmann::json> documents_;
  std::map<std::string, Pod> pods_;      // by name: "a-worker-1"
  std::map<std::string, int> failures_;  // of a Job
};

}  // namespace muster::testing
