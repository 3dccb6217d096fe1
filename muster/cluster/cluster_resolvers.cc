#include "muster/cluster/cluster_resolvers.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/cluster/slurm_nodelist.h"
#include "muster/cluster/tf_config.h"

namespace muster::inline v0_1::cluster {
namespace {

using nlohmann::json;

void check_port(int port, const char* field) {
  if (port >= 1 && port <= 65535) return;
  throw invalid_argument(fmt::format("{} is {}", field, port), "a port is 1 to 65535");
}

struct Pod {
  std::string name, phase, host_ip, pod_ip;
};

// An address of version 6 is in brackets before a port.
std::string with_port(const std::string& ip, int port) {
  return ip.find(':') == std::string::npos ? fmt::format("{}:{}", ip, port)
                                           : fmt::format("[{}]:{}", ip, port);
}

// The text of a field of an object in the pod; "" if there is none.
std::string text_in(const json& pod, const char* object, const char* field) {
  if (!pod.contains(object) || !pod[object].is_object()) return "";
  const json& fields = pod[object];
  return fields.contains(field) && fields[field].is_string() ? fields[field].get<std::string>()
                                                             : "";
}

std::vector<Pod> read_pods(const std::string& text, const std::string& selector) {
  const std::string what = fmt::format("the pods with the labels \"{}\"", selector);
  const json list = parse_json(text, what).value();
  const auto wrong = [&] {
    return corrupt(what + " are not PodList: " + text.substr(0, 200),
                   "ask for /api/v1/pods, or: kubectl get pods --output=json");
  };
  if (!list.is_object() || !list.contains("items") || !list["items"].is_array()) throw wrong();
  std::vector<Pod> pods;
  for (const json& item : list["items"]) {
    if (!item.is_object()) throw wrong();
    Pod pod{.name = text_in(item, "metadata", "name"),
            .phase = text_in(item, "status", "phase"),
            .host_ip = text_in(item, "status", "hostIP"),
            .pod_ip = text_in(item, "status", "podIP")};
    if (pod.name.empty()) throw wrong();
    pods.push_back(std::move(pod));
  }
  // The order must not change from one call to the next.
  std::ranges::sort(pods, {}, &Pod::name);
  return pods;
}

int number_in(const Environment& environment, const char* name, int64_t least) {
  const std::optional<std::string> text = environment.get(name);
  const std::optional<int64_t> number = text ? parse_int(*text) : std::nullopt;
  constexpr int64_t kMost = 1'000'000;
  if (!number || *number < least || *number > kMost) {
    throw invalid_argument(
        text ? fmt::format("{} is \"{}\"", name, *text) : fmt::format("{} is not set", name),
        "start the tasks by srun");
  }
  return static_cast<int>(*number);
}

std::string text_of_step(const Environment& environment, const char* name) {
  const std::string text = environment.get_or(name, "");
  if (text.empty()) {
    throw invalid_argument(fmt::format("{} is not set", name), "start the tasks by srun");
  }
  return text;
}

// Whether tasks are numbered from 0 without a gap.
bool is_dense(const ClusterSpec::Tasks& tasks) {
  return tasks.empty() ||
         (tasks.begin()->first == 0 && tasks.rbegin()->first + 1 == std::ssize(tasks));
}

}  // namespace

ClusterSpec kubernetes_cluster(const KubernetesClusterOptions& options, const ListPods& list_pods) {
  check_port(options.port, "KubernetesClusterOptions.port");
  ClusterSpec cluster;
  for (const auto& [job, selectors] : options.jobs) {
    cluster.add_job(job);
    int index = 0;
    for (const std::string& selector : selectors) {
      const std::vector<Pod> pods = read_pods(list_pods(selector).value(), selector);
      if (pods.empty()) {
        throw not_found(
            fmt::format("no pod has the labels \"{}\" of the job \"{}\"", selector, job),
            "look at: kubectl get pods --show-labels");
      }
      for (const Pod& pod : pods) {
        const std::string& ip = options.pod_addresses ? pod.pod_ip : pod.host_ip;
        if (pod.phase != "Running" || ip.empty()) {
          throw Error(
              ErrorKind::kUnavailable,
              fmt::format("the pod \"{}\" of the job \"{}\" is not running{}: its phase is "
                          "\"{}\"",
                          pod.name, job, ip.empty() ? ", or has no address yet" : "", pod.phase),
              "ask again when all pods run; leave out those that have ended by another "
              "label selector");
        }
        cluster.add({job, index++}, with_port(ip, options.port));
      }
    }
  }
  return cluster;
}

ClusterAndTask slurm_cluster(const Environment& environment, const SlurmClusterOptions& options) {
  check_port(options.port_base, "SlurmClusterOptions.port_base");
  const int size = number_in(environment, "SLURM_STEP_NUM_TASKS", 1);
  const int own = number_in(environment, "SLURM_PROCID", 0);
  const std::string list = text_of_step(environment, "SLURM_STEP_NODELIST");
  const std::string counts = text_of_step(environment, "SLURM_STEP_TASKS_PER_NODE");
  const std::vector<std::string> nodes = expand_nodelist(list);
  const std::vector<int> on_node = expand_tasks_per_node(counts);
  const int placed = std::accumulate(on_node.begin(), on_node.end(), 0);
  if (nodes.size() != on_node.size() || placed != size || own >= size) {
    throw invalid_argument(
        fmt::format("Slurm contradicts itself: SLURM_STEP_NUM_TASKS is {}, SLURM_PROCID is {}, "
                    "SLURM_STEP_NODELIST is {} and SLURM_STEP_TASKS_PER_NODE is {}",
                    size, own, list, counts),
        "start the tasks by one srun");
  }
  const std::map<std::string, int> jobs =
      options.jobs.empty() ? std::map<std::string, int>{{"worker", size}} : options.jobs;
  std::vector<Task> tasks;
  for (const auto& [job, count] : jobs) {
    for (int index = 0; index < count; ++index) tasks.push_back({job, index});
  }
  if (std::ssize(tasks) != size) {
    throw invalid_argument(
        fmt::format("the jobs have {} task{} in all, and the step of srun has {}", tasks.size(),
                    tasks.size() == 1 ? "" : "s", size),
        "let SlurmClusterOptions.jobs, or srun --ntasks, make as many tasks");
  }
  ClusterSpec cluster;
  size_t next = 0;
  for (size_t node = 0; node < nodes.size(); ++node) {
    for (int slot = 0; slot < on_node[node]; ++slot) {
      check_port(options.port_base + slot, "the port of a task");
      cluster.add(tasks[next++], with_port(nodes[node], options.port_base + slot));
    }
  }
  return {std::move(cluster), tasks[static_cast<size_t>(own)]};
}

ClusterSpec union_of(const std::vector<ClusterSpec>& clusters) {
  std::set<std::string> numbered;  // jobs whose tasks keep their indices
  for (const ClusterSpec& cluster : clusters) {
    for (const auto& [job, tasks] : cluster.as_map()) {
      if (!is_dense(tasks)) numbered.insert(job);
    }
  }
  ClusterSpec all;
  for (const ClusterSpec& cluster : clusters) {
    for (const auto& [job, tasks] : cluster.as_map()) {
      all.add_job(job);
      const int before = numbered.contains(job) ? 0 : all.num_tasks(job);
      for (const auto& [index, address] : tasks) all.add({job, before + index}, address);
    }
  }
  return all;
}

Environment in_cluster(const Environment& environment, const ClusterSpec& cluster,
                       const Task& task) {
  return environment.with(
      "TF_CONFIG",
      to_json_text(TfConfig{.cluster = cluster, .task_type = task.type, .task_index = task.index}));
}

}  // namespace muster::inline v0_1::cluster
