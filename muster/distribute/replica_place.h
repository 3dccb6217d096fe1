// Where a replica stands among those of a run.
// Thread safety: a value.
#pragma once

#include "muster/tensor/device.h"

namespace muster::inline v0_1::distribute {

// Replicas are numbered process by process.
struct ReplicaPlace {
  int process = 0;
  int processes = 1;
  int local = 0;  // in its process
  int locals = 1;
  bool in_chief_process = true;
  Device device = at::kCPU;  // its variables are there, and its batches are brought there

  int replica() const { return process * locals + local; }
  int replicas() const { return processes * locals; }
  // Whether this replica saves, logs and evaluates for all.
  bool is_chief() const { return in_chief_process && local == 0; }
};

}  // namespace muster::inline v0_1::distribute
