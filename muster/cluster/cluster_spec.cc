#include "muster/cluster/cluster_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::cluster {

std::string Task::name() const { return fmt::format("{}:{}", type, index); }

ClusterSpec::ClusterSpec(
    std::initializer_list<std::pair<const std::string, std::vector<std::string>>> jobs) {
  for (const auto& [job, addresses] : jobs) {
    add_job(job);
    for (size_t i = 0; i < addresses.size(); ++i) add({job, static_cast<int>(i)}, addresses[i]);
  }
}

void ClusterSpec::add(const Task& task, std::string address) {
  if (task.index < 0)
    throw invalid_argument(
        fmt::format("task index {} of job \"{}\" is negative", task.index, task.type));
  if (!jobs_[task.type].emplace(task.index, std::move(address)).second) {
    throw invalid_argument(
        fmt::format("job \"{}\" has two tasks with index {}", task.type, task.index));
  }
}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [job, tasks] : jobs_) names.push_back(job);
  return names;
}

int ClusterSpec::num_tasks(const std::string& job) const {
  auto it = jobs_.find(job);
  return it == jobs_.end() ? 0 : static_cast<int>(it->second.size());
}

int ClusterSpec::num_tasks() const {
  int count = 0;
  for (const auto& [job, tasks] : jobs_) count += static_cast<int>(tasks.size());
  return count;
}

bool ClusterSpec::has_task(const Task& task) const {
  auto it = jobs_.find(task.type);
  return it != jobs_.end() && it->second.contains(task.index);
}

const ClusterSpec::Tasks& ClusterSpec::tasks(const std::string& job) const {
  auto it = jobs_.find(job);
  if (it == jobs_.end()) {
    throw invalid_argument(
        fmt::format("the cluster has no job \"{}\"; it has {}", job, join_quoted(jobs())));
  }
  return it->second;
}

const std::string& ClusterSpec::address(const Task& task) const {
  const Tasks& all = tasks(task.type);
  auto it = all.find(task.index);
  if (it == all.end()) {
    throw invalid_argument(fmt::format("job \"{}\" has no task with index {}; it has {} task(s)",
                                       task.type, task.index, all.size()));
  }
  return it->second;
}

// --- RunConfig ---

int num_ps(const ClusterSpec& cluster) { return cluster.num_tasks("ps"); }

int num_workers(const ClusterSpec& cluster) {
  return cluster.num_tasks("worker") +
         cluster.num_tasks(cluster.has_job("chief") ? "chief" : "master");
}

std::optional<int> global_id(const ClusterSpec& cluster, const Task& task) {
  std::vector<std::string> order = cluster.jobs();
  auto place = [&](const std::string& job) {
    return job == "chief" || job == "master" ? 0 : job == "ps" ? 2 : 1;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const std::string& a, const std::string& b) { return place(a) < place(b); });
  int id = 0;
  for (const std::string& job : order) {
    for (const auto& [index, address] : cluster.tasks(job)) {
      if (job == task.type && index == task.index) return id;
      ++id;
    }
  }
  return std::nullopt;
}

// --- multi-worker strategies ---

void validate_multi_worker(const ClusterSpec& cluster, const Task& task) {
  constexpr std::array kAllowed = {"chief", "worker", "ps", "evaluator"};
  auto allowed = [&](const std::string& type) {
    return std::find(kAllowed.begin(), kAllowed.end(), type) != kAllowed.end();
  };
  const std::string hint =
      "a multi-worker cluster has the task types chief, worker, ps and evaluator";
  for (const std::string& job : cluster.jobs()) {
    if (!allowed(job))
      throw invalid_argument(fmt::format("task type \"{}\" in the cluster is unknown", job), hint);
  }
  for (std::string single : {"chief", "evaluator"}) {
    if (int count = cluster.num_tasks(single); count > 1) {
      throw invalid_argument(fmt::format(
          "the cluster has {} tasks of type \"{}\", at most one is possible", count, single));
    }
  }
  if (task.type.empty()) return;
  if (!allowed(task.type))
    throw invalid_argument(fmt::format("task type \"{}\" is unknown", task.type), hint);
  if (task.index < 0) throw invalid_argument(fmt::format("task index {} is negative", task.index));
  if (!cluster.has_job(task.type)) {
    if (task.type == "evaluator") return;
    throw invalid_argument(fmt::format("task type \"{}\" is not in the cluster; it has {}",
                                       task.type, join_quoted(cluster.jobs())));
  }
  cluster.address(task);
}

bool is_chief(const ClusterSpec& cluster, const Task& task) {
  validate_multi_worker(cluster, task);
  if (task.type == "chief" || task.type == "evaluator") return true;
  return task.type == "worker" && !cluster.has_job("chief") &&
         task.index == cluster.tasks("worker").begin()->first;
}

int worker_count(const ClusterSpec& cluster, const std::string& task_type) {
  validate_multi_worker(cluster, {});
  if (task_type == "evaluator") return std::max(1, cluster.num_tasks("evaluator"));
  if (task_type != "chief" && task_type != "worker") {
    throw invalid_argument(fmt::format(
        "task type \"{}\" counts no workers: only chief, worker and evaluator do", task_type));
  }
  if (!cluster.has_job(task_type)) cluster.tasks(task_type);  // throws
  return cluster.num_tasks("chief") + cluster.num_tasks("worker");
}

int id_in_cluster(const ClusterSpec& cluster, const Task& task) {
  validate_multi_worker(cluster, task);
  if (task.type == "chief") return 0;
  if (task.type == "evaluator") return task.index;
  if (task.type == "worker") {
    const ClusterSpec::Tasks& workers = cluster.tasks("worker");
    return cluster.num_tasks("chief") +
           static_cast<int>(std::distance(workers.begin(), workers.find(task.index)));
  }
  throw invalid_argument(
      fmt::format("a task of type \"{}\" has no id among the workers", task.type));
}

std::optional<Task> collective_leader(const ClusterSpec& cluster, const Task& task) {
  if (cluster.empty()) return std::nullopt;
  validate_multi_worker(cluster, task);
  if (task.type == "evaluator") return std::nullopt;
  if (cluster.num_tasks("chief") > 0) return Task{"chief", cluster.tasks("chief").begin()->first};
  if (cluster.num_tasks("worker") > 0)
    return Task{"worker", cluster.tasks("worker").begin()->first};
  throw invalid_argument("the cluster has neither a chief nor a worker to lead collectives");
}

}  // namespace muster::inline v0_1::cluster
