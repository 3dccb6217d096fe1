// Plays the role of Kubernetes for the documents of a job, in tests: starts the command of each pod
// as a process, with its variables and name, and starts it again according to the Job's policy.
// Thread safety: one thread, the test's.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/temp_directory.h"
#include "tests/end_to_end/program.h"

namespace muster::testing {

// The reach of a network of one's own, if the kernel permits one.
enum class Network {
  kNone,
  kOneHost,  // the names of all hosts are addresses of one loopback interface: two cannot listen at
             // the same port of every interface
  kHosts,    // each is a network of its own, on one bridge, as pods have it
};
// Gives this process a network in which `hosts` know each other by name. Call it once, with the
// hosts of all that the process will play.
Network enter_network(const std::vector<std::string>& hosts);

class PlayedKubelet {
 public:
  // Jobs, their Service, and the Secret. `network` says whether the pods' names are known: call
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
  bool run(std::chrono::seconds deadline = std::chrono::seconds(180));

  // The output of a pod's process, or of an earlier one: attempt 0 is the first.
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

  void start(const std::string& name, Pod& pod);
  static std::string host_of(const std::string& name, const Pod& pod);
  Variables variables_of(const Pod& pod) const;
  const nlohmann::json& secret(const std::string& name) const;
  // Writes the Secrets that the pod mounts into a folder, which replaces their place in the pod:
  // returns the map from one to the other.
  std::map<std::string, std::string> mount_secrets(const Pod& pod) const;
  // Whether and how the Job continues after this exit code.
  bool may_restart(const Pod& pod, int code);

  std::vector<nlohmann::json> documents_;
  TempDirectory mounts_;
  std::map<std::string, Pod> pods_;      // by name: "a-worker-1"
  std::map<std::string, int> failures_;  // of a Job
};

}  // namespace muster::testing
