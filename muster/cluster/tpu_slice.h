// A slice of a TPU, as the variables of one of its processes describe it.
// Thread safety: values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/cluster/cluster_spec.h"

namespace muster::inline v0_1::cluster {

// The processes of a slice, and the place of this process among them. A process is usually a host
// with all its chips. It is one chip where TPU_PROCESS_ADDRESSES and CLOUD_TPU_TASK_ID say so.
struct TpuSlice {
  std::string name{};                // TPU_NAME; "" if it is not set
  std::string accelerator{};         // TPU_ACCELERATOR_TYPE, "v5litepod-16"; "" if it is not set
  int worker = 0;                    // this process
  std::vector<std::string> hosts{};  // the host of each process, without a port
  int chips = 0;                     // of each process; 0 if no variable says it
};

// Whether the variables describe a slice: they name a worker and the hosts.
MUSTER_PART_EXPORT bool has_tpu_slice(const Environment& environment);
// Reads the slice. REQUIRES: has_tpu_slice(). Throws InvalidArgument that names the variable and
// its value if a variable is malformed or contradicts another one, and for several slices.
MUSTER_PART_EXPORT TpuSlice read_tpu_slice(const Environment& environment);
// The number of chips of each process that the variables name: the product of
// TPU_CHIPS_PER_PROCESS_BOUNDS, else of TPU_CHIPS_PER_HOST_BOUNDS, else 0. Throws InvalidArgument
// for a text that is not such bounds.
MUSTER_PART_EXPORT int tpu_chips_per_process(const Environment& environment);

// The job "worker" with each host at this port.
MUSTER_PART_EXPORT ClusterSpec tpu_cluster_spec(const std::vector<std::string>& hosts, int port);

}  // namespace muster::inline v0_1::cluster
