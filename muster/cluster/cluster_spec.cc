#include "muster/cluster/cluster_spec.h"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace muster::inline v0_1::cluster
