// Finds the slice of a TPU that this process is part of: in GKE by the variables of the pod, on a
// TPU VM by its metadata. The hosts of the slice are the workers of one run:
//
//   const cluster::TpuResolver tpu({.tpu = "local"}, Environment::process(), read_attribute);
//   RunConfig config{.environment = tpu.environment()};
//
// Thread safety: a constant value; the constructor calls `read_attribute`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/cluster/cluster_spec.h"

namespace muster::inline v0_1::cluster {

// Options of TpuResolver.
struct TpuResolverOptions {
  // The name of the TPU. "" and "local": the TPU of this machine, whatever its name. Another name
  // is compared with TPU_NAME where that is set. An address ("grpc://...") is not supported.
  std::string tpu{};
  // The zone of the TPU. It is compared with the zone in the metadata. "": any.
  std::string zone{};
  int port = 8470;  // the port of every worker in cluster_spec()
};

// Returns the attribute of this machine that the metadata server of Google's machines has at
// http://metadata.google.internal/computeMetadata/v1/instance/attributes/NAME (with the header
// "Metadata-Flavor: Google"), or nothing if there is none.
using ReadTpuAttribute = std::function<std::optional<std::string>(const std::string& name)>;

// What TPUClusterResolver is in tf.distribute, for a program that runs on the hosts of the TPU.
class MUSTER_EXPORT TpuResolver {
 public:
  // Reads, in this order: the variables of a slice (TPU_WORKER_HOSTNAMES with TPU_WORKER_ID or
  // CLOUD_TPU_TASK_ID, or TPU_PROCESS_ADDRESSES with CLOUD_TPU_TASK_ID); the attributes "tpu-env"
  // and "worker-network-endpoints", if `read_attribute` is given and PJRT_DEVICE is not "CPU"; one
  // worker, if PJRT_DEVICE is "CPU". Throws InvalidArgument if none of these describes a slice, if
  // the description is malformed or contradicts itself or the options, if PJRT_DEVICE is neither
  // "TPU" nor "CPU", for several slices (MEGASCALE_NUM_SLICES) and for an address in options.tpu.
  explicit TpuResolver(const TpuResolverOptions& options = {},
                       const Environment& environment = Environment::process(),
                       const ReadTpuAttribute& read_attribute = {});

  // TPU_NAME, else the name in the options; "" without both.
  const std::string& name() const { return name_; }
  // "v5litepod-16"; "" if nothing says it.
  const std::string& accelerator_type() const { return accelerator_type_; }
  // The number of this process among the workers, from 0.
  int worker() const { return worker_; }
  int num_workers() const { return static_cast<int>(hosts_.size()); }
  // The host of each worker, by name or number.
  const std::vector<std::string>& hosts() const { return hosts_; }
  // The devices of each worker: CPU_NUM_DEVICES (default 1) if PJRT_DEVICE is "CPU", else the
  // product of TPU_CHIPS_PER_PROCESS_BOUNDS or TPU_CHIPS_PER_HOST_BOUNDS; 0 if nothing says it.
  int chips_per_worker() const { return chips_per_worker_; }
  // The job "worker" with the host of each worker at the port of the options. Several processes of
  // one host have the same address there.
  ClusterSpec cluster_spec() const;
  // The given environment, with the variables TPU_WORKER_ID and TPU_WORKER_HOSTNAMES of a slice
  // that was found in metadata: for RunConfig::environment, which finds the same cluster then.
  const Environment& environment() const { return environment_; }

 private:
  Environment environment_;
  std::string name_;
  std::string accelerator_type_;
  std::vector<std::string> hosts_;
  int worker_ = 0;
  int chips_per_worker_ = 0;
  int port_ = 0;
};

}  // namespace muster::inline v0_1::cluster
