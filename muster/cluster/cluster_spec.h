// The jobs of a cluster and the addresses of their tasks, as plain data, and the rules that number
// them. Thread safety: values.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::inline v0_1::cluster {

// The name of one task: its job and its index there.
struct Task {
  std::string type;  // "chief", "worker", "ps", "evaluator", or a type of one's own
  int index = 0;
  bool operator==(const Task&) const = default;
  std::string name() const;  // "worker:1"
};

// Jobs, their tasks and the addresses of those, by job and index.
class ClusterSpec {
 public:
  using Tasks = std::map<int, std::string>;  // index -> address; indices may have gaps (sparse)

  ClusterSpec() = default;
  ClusterSpec(std::initializer_list<std::pair<const std::string, std::vector<std::string>>> jobs);

  // Throws InvalidArgument when the index is negative or taken.
  void add(const Task& task, std::string address);
  // A job may be there without tasks.
  void add_job(const std::string& job) { jobs_.try_emplace(job); }

  bool empty() const { return jobs_.empty(); }
  // Whether the job is named, be it without tasks.
  bool has_job(const std::string& job) const { return jobs_.contains(job); }
  std::vector<std::string> jobs() const;        // sorted
  int num_tasks(const std::string& job) const;  // 0 for an unknown job
  int num_tasks() const;
  // Whether the task has an address.
  bool has_task(const Task& task) const;
  // Throws InvalidArgument naming the job or index that is not there.
  const Tasks& tasks(const std::string& job) const;
  const std::string& address(const Task& task) const;
  const std::map<std::string, Tasks>& as_map() const { return jobs_; }
  bool operator==(const ClusterSpec&) const = default;

 private:
  std::map<std::string, Tasks> jobs_;
};

// --- the numbering of Estimator's RunConfig: any job type, "master" as another name for "chief"
// ---

// Parameter servers.
int num_ps(const ClusterSpec& cluster);
int num_workers(const ClusterSpec& cluster);  // chief or master, and workers
// Chief (or master) 0, then the other types alphabetically, ps last; inside a type by index.
// Nothing when the task is not in the cluster.
std::optional<int> global_id(const ClusterSpec& cluster, const Task& task);

// --- the numbering of multi-worker strategies: chief, worker, ps, evaluator only; worker 0 leads
// without a chief ---

// Throws InvalidArgument for other job types, more than one chief or evaluator, a task that is not
// there. The evaluator may be outside of the cluster. An empty `task.type` checks the cluster
// alone.
void validate_multi_worker(const ClusterSpec& cluster, const Task& task);
// The task that saves and logs for its part of the cluster: chief, worker 0 without one, or the
// evaluator.
bool is_chief(const ClusterSpec& cluster, const Task& task);
// Chief and workers; for the evaluator, evaluators. Throws InvalidArgument for "ps".
int worker_count(const ClusterSpec& cluster, const std::string& task_type);
// Chief 0, then workers in order; the evaluator its own index. Throws InvalidArgument for "ps".
int id_in_cluster(const ClusterSpec& cluster, const Task& task);
// Who leads the collectives of this task; nothing for an empty cluster and for the evaluator.
std::optional<Task> collective_leader(const ClusterSpec& cluster, const Task& task);

}  // namespace muster::inline v0_1::cluster
