// The place of a replica among the replicas of a run. Thread safety: a value.
#pragma once

#include <string>

#include "muster/tensor/device.h"

namespace muster::inline v0_1::distribute {

// Replicas are numbered process by process.
struct ReplicaPlace {
  int process = 0;
  int processes = 1;
  int local = 0;  // in its process
  int locals = 1;
  bool in_chief_process = true;
  std::string task = {};     // of a cluster: "worker 1"; else ""
  Device device = at::kCPU;  // its variables are on it, and its batches are copied to it
  bool in_sync = true;       // false: each process makes updates at its own pace

  int replica() const { return process * locals + local; }
  // How many make an update together.
  int replicas() const { return in_sync ? processes * locals : 1; }
  // As messages name it: "worker 1", "worker 1, replica 3", "replica 0".
  std::string name() const {
    if (task.empty()) return "replica " + std::to_string(replica());
    return locals == 1 ? task : task + ", replica " + std::to_string(replica());
  }
  // Whether this replica saves, logs and evaluates for all.
  bool is_chief() const { return in_chief_process && local == 0; }
};

}  // namespace muster::inline v0_1::distribute
