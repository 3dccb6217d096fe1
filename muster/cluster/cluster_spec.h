// The jobs of a cluster and the addresses of their tasks, as plain data, and the rules that number
// the tasks. Thread safety: values.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::cluster {

// The name of one task: its job and its index there.
struct MUSTER_EXPORT Task {
  std::string type{};  // "chief", "worker", "ps", "evaluator", or your own type
  int index = 0;
  bool operator==(const Task&) const = default;
  std::string name() const;  // "worker:1"
};

// The jobs of a cluster, with the address of each task by job and index.
class MUSTER_EXPORT ClusterSpec {
 public:
  using Tasks = std::map<int, std::string>;  // index -> address; indices may have gaps (sparse)

  ClusterSpec() = default;
  ClusterSpec(std::initializer_list<std::pair<const std::string, std::vector<std::string>>> jobs);

  // Throws InvalidArgument when the index is negative or taken.
  void add(const Task& task, std::string address);
  // Adds a job that may have no tasks.
  void add_job(const std::string& job) { jobs_.try_emplace(job); }

  bool empty() const { return jobs_.empty(); }
  // Whether the job is named, even if it has no tasks.
  bool has_job(const std::string& job) const { return jobs_.contains(job); }
  std::vector<std::string> jobs() const;        // sorted
  int num_tasks(const std::string& job) const;  // 0 for an unknown job
  int num_tasks() const;
  // Whether the task has an address.
  bool has_task(const Task& task) const;
  // Both throw InvalidArgument with the name of the missing job or index.
  const Tasks& tasks(const std::string& job) const;
  const std::string& address(const Task& task) const;
  const std::map<std::string, Tasks>& as_map() const { return jobs_; }
  bool operator==(const ClusterSpec&) const = default;

 private:
  std::map<std::string, Tasks> jobs_;
};

// --- the numbers that Estimator's RunConfig gives to tasks of any job type; "master" means "chief"
// ---

// The number of parameter servers.
MUSTER_EXPORT int num_ps(const ClusterSpec& cluster);
MUSTER_EXPORT int num_workers(const ClusterSpec& cluster);  // chief or master, and workers
// Returns the task's number in the cluster: the chief (or master) is 0, then come the other types
// alphabetically, with ps last; inside a type, tasks are ordered by index. Returns nothing when the
// task is not in the cluster.
MUSTER_EXPORT std::optional<int> global_id(const ClusterSpec& cluster, const Task& task);

}  // namespace muster::inline v0_1::cluster
