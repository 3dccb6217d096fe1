// Clusters that are asked for rather than given to this process: the pods of Kubernetes that have a
// label, a step of Slurm whose tasks have several jobs, and what several of these say together. A
// program hands what comes of it to training by RunConfig::environment:
//
//   const stores::KubernetesApi api(Environment::process());
//   const ClusterSpec pods = cluster::kubernetes_cluster(
//       {.jobs = {{"chief", {"app=train,role=chief"}}, {"worker", {"app=train,role=worker"}}}},
//       [&](const std::string& selector) { return api.list_pods(selector); });
//   RunConfig config{.environment = cluster::in_cluster(Environment::process(), pods, own_task)};
//
// Thread safety: pure functions, but for what `list_pods` does.
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
  // The label selectors of each job; its tasks are numbered selector by selector, and by the names
  // of the pods within each.
  std::map<std::string, std::vector<std::string>> jobs = {{"worker", {"job-name=tensorflow"}}};
  int port = 8470;  // at which every task listens
  // The address of a pod is that of its node (hostIP), as in tf.distribute, which is right for pods
  // with hostNetwork. True: that of the pod itself (podIP).
  bool pod_addresses = false;
};
// Returns the PodList, in JSON, of the pods that have these labels.
using ListPods = std::function<Result<std::string>(const std::string& label_selector)>;

// Returns the tasks that these pods are now. Which of them this process is, Kubernetes does not
// say. Throws Unavailable for a pod that is not running or has no address yet, NotFound for a
// selector without pods, Corrupt for what is no PodList, InvalidArgument for a port that cannot be,
// and what `list_pods` returns.
MUSTER_EXPORT ClusterSpec kubernetes_cluster(const KubernetesClusterOptions& options,
                                             const ListPods& list_pods);

// Options of slurm_cluster().
struct SlurmClusterOptions {
  // The jobs and how many tasks each has: in the order of their names they take the tasks of the
  // step, from number 0 on. None: all are workers.
  std::map<std::string, int> jobs = {};
  int port_base = 8888;  // of the first task of each node; the next ones have the next ports
};
// A cluster, and which of its tasks this process is.
struct ClusterAndTask {
  ClusterSpec cluster{};
  Task task{};
};
// Returns the cluster of the step of `srun` that this process is a task of, from SLURM_PROCID,
// SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE. Nodes stay in Slurm's
// order, which numbers the tasks. Throws InvalidArgument where one of these is missing or wrong,
// and for jobs of another number of tasks than the step has.
MUSTER_EXPORT ClusterAndTask slurm_cluster(const Environment& environment,
                                           const SlurmClusterOptions& options = {});

// Returns the tasks of all. Of a job that several name, tasks stand one behind another where all of
// them number it from 0 without a gap; else each task keeps its index. Throws InvalidArgument where
// two of them then have the same index.
MUSTER_EXPORT ClusterSpec union_of(const std::vector<ClusterSpec>& clusters);

// Returns the environment with the TF_CONFIG of this task, which counts before what a launcher
// says.
MUSTER_EXPORT Environment in_cluster(const Environment& environment, const ClusterSpec& cluster,
                                     const Task& task);

}  // namespace muster::inline v0_1::cluster
