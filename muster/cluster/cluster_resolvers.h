// Finds clusters by asking a scheduler: pods of Kubernetes with a label, a step of Slurm whose
// tasks have several jobs, and a union of several clusters. A program passes the result to training
// in RunConfig::environment:
//
//   const stores::KubernetesApi api(Environment::process());
//   const ClusterSpec pods = cluster::kubernetes_cluster(
//       {.jobs = {{"chief", {"app=train,role=chief"}}, {"worker", {"app=train,role=worker"}}}},
//       [&](const std::string& selector) { return api.list_pods(selector); });
//   RunConfig config{.environment = cluster::in_cluster(Environment::process(), pods, own_task)};
//
// Thread safety: pure functions, except for what `list_pods` does.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/base/result.h"
#include "muster/cluster/cluster_spec.h"

namespace muster::inline v0_1::cluster {

// Options of kubernetes_cluster().
struct KubernetesClusterOptions {
  // The label selectors of each job. Tasks are numbered selector by selector, and by pod name
  // within a selector.
  std::map<std::string, std::vector<std::string>> jobs = {{"worker", {"job-name=tensorflow"}}};
  int port = 8470;  // the port on which every task listens
  // False: the address of a pod is that of its node (hostIP), as in tf.distribute, which is right
  // for pods with hostNetwork. True: the address of the pod itself (podIP).
  bool pod_addresses = false;
};
// Returns the PodList, as JSON, of the pods with these labels.
using ListPods = std::function<Result<std::string>(const std::string& label_selector)>;

// Returns the tasks that these pods are at present. Kubernetes does not say which of them this
// process is. Throws Unavailable for a pod that is not running or has no address yet, NotFound for
// a selector without pods, Corrupt for an answer that is not a PodList, InvalidArgument for an
// invalid port, and the error of `list_pods`.
MUSTER_EXPORT ClusterSpec kubernetes_cluster(const KubernetesClusterOptions& options,
                                             const ListPods& list_pods);

// Options of slurm_cluster().
struct SlurmClusterOptions {
  // The number of tasks of each job. In the order of their names, jobs take the tasks of the step,
  // beginning with task 0. Empty: all tasks are workers.
  std::map<std::string, int> jobs = {};
  int port_base = 8888;  // the first task's on each node; the next tasks add 1, 2, ...
};
// A cluster, and the task that this process is.
struct ClusterAndTask {
  ClusterSpec cluster{};
  Task task{};
};
// Returns the cluster of the `srun` step of this process, from SLURM_PROCID, SLURM_STEP_NUM_TASKS,
// SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE. Nodes keep Slurm's order, which numbers the
// tasks. Throws InvalidArgument if one of these variables is missing or wrong, or if the jobs have
// another number of tasks than the step.
MUSTER_EXPORT ClusterAndTask slurm_cluster(const Environment& environment,
                                           const SlurmClusterOptions& options = {});

// Returns a cluster with the tasks of all clusters. If several clusters have the same job, and each
// numbers its tasks from 0 without a gap, their tasks are appended one cluster after the other;
// else each task keeps its index. Throws InvalidArgument if two tasks then have the same index.
MUSTER_EXPORT ClusterSpec union_of(const std::vector<ClusterSpec>& clusters);

// Returns the environment with a TF_CONFIG for this task, which takes precedence over the
// launcher's variables.
MUSTER_EXPORT Environment in_cluster(const Environment& environment, const ClusterSpec& cluster,
                                     const Task& task);

}  // namespace muster::inline v0_1::cluster
