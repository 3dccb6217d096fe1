// Who this process is in its cluster, decided once when training starts, as plain data.
// Thread safety: values and pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/environment.h"
#include "muster/cluster/cluster_spec.h"
#include "muster/cluster/tf_config.h"

namespace muster::inline v0_1::cluster {

// This process and its cluster, as training uses them.
struct ResolvedCluster {
  Task task{"worker", 0};  // a "master" is called "chief" here
  bool is_chief = true;    // saves, logs, serves the coordinator
  bool is_evaluator = false;
  int rank = 0;  // chief 0, then workers in order; -1 for the evaluator and parameter servers
  int num_workers = 1;  // chief and workers; 0 for the evaluator
  int num_ps = 0;
  std::vector<Task> workers{{"worker", 0}};  // in rank order
  std::vector<std::string> addresses;        // of `workers`; empty without a cluster
  std::string coordinator_address;           // the chief's; empty without a cluster
  std::vector<std::string> ps_addresses;     // in order of their index
  std::optional<std::string> model_dir;      // from TF_CONFIG
  std::vector<std::string> notes;            // what was repaired, for the log

  // Whether several workers must meet before they train.
  bool distributed() const { return num_workers > 1; }
  // "worker 1, rank 2 of 3, coordinator (chief) at host0:2222"
  std::string describe() const;
};

// What the program knows and TF_CONFIG does not say.
struct ResolveOptions {
  // A strategy for several workers is set: a cluster of workers alone is valid, and its first
  // worker the chief.
  bool worker_zero_may_be_chief = false;
  std::optional<std::string> model_dir;  // the program's own
};

// One way in which a process learns its place in a cluster.
struct ClusterSource {
  std::string_view name;  // "TF_CONFIG"
  // Nothing when the environment does not speak of this way. Throws InvalidArgument when it does
  // and is wrong.
  std::optional<ResolvedCluster> (*resolve)(const Environment& environment,
                                            const ResolveOptions& options);
};

// All ways there are, in the order they are asked. Today TF_CONFIG alone.
std::span<const ClusterSource> cluster_sources();

// What the first source says that knows this process; a run on this process alone when none does.
// Throws InvalidArgument.
ResolvedCluster resolve_cluster(const Environment& environment, const ResolveOptions& options = {});

// What training makes of a TF_CONFIG. Differs from read_run_config where that is known to hurt:
// "master" is the chief; an evaluator may be inside or outside of the cluster and takes no part in
// it; empty, malformed and repeated addresses are refused; unknown job types are refused.
ResolvedCluster resolve_cluster(const TfConfig& config, const ResolveOptions& options = {});

}  // namespace muster::inline v0_1::cluster
