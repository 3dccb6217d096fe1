// Decides which task of which cluster this process is, once, when training starts, as plain data.
// Thread safety: values and pure functions.
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

// The cluster as training uses it, and the place of this process in it.
struct MUSTER_EXPORT ResolvedCluster {
  Task task{"worker", 0};  // a "master" is called "chief" here
  bool is_chief = true;    // saves, logs, serves the coordinator
  bool is_evaluator = false;
  int rank = 0;  // chief 0, then workers in order; -1 for the evaluator and parameter servers
  int num_workers = 1;  // chief and workers; 0 for the evaluator
  int num_ps = 0;
  std::vector<Task> workers{{"worker", 0}};  // in rank order
  // The addresses of `workers`; empty without a cluster. Where a launcher names only the host of
  // rank 0, the other addresses are "": the workers exchange them when they connect.
  std::vector<std::string> addresses{};
  std::string coordinator_address{};        // the chief's; empty without a cluster
  std::vector<std::string> ps_addresses{};  // in order of their index
  // From TF_CONFIG; if neither it nor the program sets one, the folder that the service names.
  std::optional<std::string> model_dir{};
  std::vector<std::string> notes{};  // what was corrected, for the log
  int local_rank = 0;                // among the tasks of this machine, if the launcher counts them
  int local_size = 1;                // the number of these tasks
  std::string source{};  // the launcher, such as "torchrun"; "" for a run of one process
  // "torchrun 4f7e (also seen, not used: Slurm step 12.0)"; "" when only TF_CONFIG was found.
  std::string origin{};
  Job job{};  // its credentials

  // Whether several workers connect to each other before they train.
  bool distributed() const { return num_workers > 1; }
  // "worker 1, rank 2 of 3, coordinator (chief) at host0:2222"
  std::string describe() const;
};

// What the program knows and the environment does not say.
struct ResolveOptions {
  // True for a strategy with several workers: a cluster of workers only is then valid, and its
  // first worker is the chief.
  bool worker_zero_may_be_chief = false;
  // True when weights are to be on parameter servers; it chooses the advice given without a chief.
  bool wants_servers = false;
  std::optional<std::string> model_dir{};  // set by the program
};

// Returns the cluster that the launcher of this process describes: the launcher that MUSTER_CLUSTER
// names, or the first of cluster_sources() that started this process. Without a launcher, returns a
// run of this process alone. Throws InvalidArgument when the description is wrong, or when two
// launchers contradict each other.
MUSTER_EXPORT ResolvedCluster resolve_cluster(const Environment& environment,
                                              const ResolveOptions& options = {});

// Logs `notes` and `origin`, each line once.
MUSTER_EXPORT void announce(const ResolvedCluster& cluster);

// The place of this process among those that one launcher started on this machine.
struct LocalPlace {
  int rank = 0;  // from 0
  int size = 1;  // the number of processes it started here
};
// Returns the place that resolve_cluster() finds; rank 0 of 1 if it would throw.
MUSTER_EXPORT LocalPlace local_place(const Environment& environment) noexcept;

// Returns the cluster that training uses for a TF_CONFIG. It differs from read_run_config() on
// purpose: "master" is the chief; an evaluator may be inside or outside of the cluster, with any
// index, and takes no part in it; empty, malformed and repeated addresses are refused, and so are
// unknown job types. Throws InvalidArgument.
MUSTER_EXPORT ResolvedCluster resolve_cluster(const TfConfig& config,
                                              const ResolveOptions& options = {});

}  // namespace muster::inline v0_1::cluster
