// Decides who this process is in its cluster, once, when training starts, as plain data. Thread
// safety: values and pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/environment.h"
#include "muster/cluster/cluster_spec.h"
#include "muster/cluster/job.h"
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
  Job job;                                   // what keeps strangers out

  // Whether several workers must meet before they train.
  bool distributed() const { return num_workers > 1; }
  // "worker 1, rank 2 of 3, coordinator (chief) at host0:2222"
  std::string describe() const;
};

// What the program knows and TF_CONFIG does not say.
struct ResolveOptions {
  // Set where a strategy for several workers is used: a cluster of workers alone is valid then, and
  // its first worker is the chief.
  bool worker_zero_may_be_chief = false;
  // Set where weights are to live on parameter servers: what to do where there is no chief.
  bool wants_servers = false;
  std::optional<std::string> model_dir;  // the program's own
};

// A way in which a process learns its place in a cluster.
struct ClusterSource {
  std::string_view name;  // "TF_CONFIG"
  // Returns nothing when the environment does not use this way. Throws InvalidArgument when it does
  // and is wrong.
  std::optional<ResolvedCluster> (*resolve)(const Environment& environment,
                                            const ResolveOptions& options);
};

// All sources, in the order in which they are asked. Today TF_CONFIG is the only one.
std::span<const ClusterSource> cluster_sources();

// Returns what the first source says that knows this process, or a run of this process alone when
// none does. Throws InvalidArgument when a source is wrong.
ResolvedCluster resolve_cluster(const Environment& environment, const ResolveOptions& options = {});

// Returns what training makes of a TF_CONFIG. It differs from read_run_config where that is known
// to hurt: "master" is the chief; an evaluator may be inside or outside of the cluster, with any
// index, and takes no part in it; empty, malformed and repeated addresses are refused, and so are
// unknown job types. Throws InvalidArgument.
ResolvedCluster resolve_cluster(const TfConfig& config, const ResolveOptions& options = {});

}  // namespace muster::inline v0_1::cluster
