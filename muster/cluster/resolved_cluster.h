// Decides who this process is in its cluster, once, when training starts, as plain data. Thread
// safety: values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/cluster/cluster_spec.h"
#include "muster/cluster/job_credentials.h"
#include "muster/cluster/tf_config.h"

namespace muster::inline v0_1::cluster {

// This process and its cluster, as training uses them.
struct MUSTER_EXPORT ResolvedCluster {
  Task task{"worker", 0};  // a "master" is called "chief" here
  bool is_chief = true;    // saves, logs, serves the coordinator
  bool is_evaluator = false;
  int rank = 0;  // chief 0, then workers in order; -1 for the evaluator and parameter servers
  int num_workers = 1;  // chief and workers; 0 for the evaluator
  int num_ps = 0;
  std::vector<Task> workers{{"worker", 0}};  // in rank order
  // Of `workers`; empty without a cluster. Where a launcher names the host of rank 0 alone, the
  // others' are "": they say where they are when they have met.
  std::vector<std::string> addresses{};
  std::string coordinator_address{};        // the chief's; empty without a cluster
  std::vector<std::string> ps_addresses{};  // in order of their index
  // From TF_CONFIG; else, where the program gives none, the folder that the service names.
  std::optional<std::string> model_dir{};
  std::vector<std::string> notes{};  // what was repaired, for the log
  int local_rank = 0;    // among the tasks of this machine, where the launcher counts them
  int local_size = 1;    // those tasks
  std::string source{};  // who said so: "torchrun"; "" for a run of this process alone
  // "torchrun 4f7e (also seen, not used: Slurm step 12.0)"; "" where nothing but TF_CONFIG was
  // seen.
  std::string origin{};
  Job job{};  // what keeps unauthenticated peers out

  // Whether several workers must meet before they train.
  bool distributed() const { return num_workers > 1; }
  // "worker 1, rank 2 of 3, coordinator (chief) at host0:2222"
  std::string describe() const;
};

// What the program knows and its environment does not say.
struct ResolveOptions {
  // Set where a strategy for several workers is used: a cluster of workers alone is valid then, and
  // its first worker is the chief.
  bool worker_zero_may_be_chief = false;
  // Set where weights are to live on parameter servers: what to do where there is no chief.
  bool wants_servers = false;
  std::optional<std::string> model_dir{};  // the program's own
};

// Returns what the launcher of this process says, the first of cluster_sources() that has started
// it or the one that MUSTER_CLUSTER names, or a run of this process alone when there is none.
// Throws InvalidArgument when what it says is wrong, and when two launchers contradict each other.
MUSTER_EXPORT ResolvedCluster resolve_cluster(const Environment& environment,
                                              const ResolveOptions& options = {});

// Writes `notes` and `origin` to the log, each line once.
MUSTER_EXPORT void announce(const ResolvedCluster& cluster);

// This process among those that one launcher started on this machine.
struct LocalPlace {
  int rank = 0;  // from 0
  int size = 1;  // how many it started here
};
// The place that resolve_cluster() finds; alone where it finds a mistake.
MUSTER_EXPORT LocalPlace local_place(const Environment& environment) noexcept;

// Returns what training makes of a TF_CONFIG. It differs from read_run_config where that is known
// to hurt: "master" is the chief; an evaluator may be inside or outside of the cluster, with any
// index, and takes no part in it; empty, malformed and repeated addresses are refused, and so are
// unknown job types. Throws InvalidArgument.
MUSTER_EXPORT ResolvedCluster resolve_cluster(const TfConfig& config,
                                              const ResolveOptions& options = {});

}  // namespace muster::inline v0_1::cluster
