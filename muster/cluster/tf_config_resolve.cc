#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "muster/base/error.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"
#include "muster/cluster/internal/cluster_sources.h"
#include "muster/cluster/internal/tf_config_corrections.h"
#include "muster/cluster/internal/tf_config_mistake.h"
#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::cluster {
namespace {

// Returns the cluster with `job` under another name, or without it when `name` is empty.
ClusterSpec renamed(const ClusterSpec& cluster, const std::string& job, const std::string& name) {
  ClusterSpec result;
  for (const auto& [old, tasks] : cluster.as_map()) {
    const std::string& now = old == job ? name : old;
    if (now.empty()) continue;
    result.add_job(now);
    for (const auto& [index, address] : tasks) result.add({now, index}, address);
  }
  return result;
}

constexpr std::array kKnownJobs = {"chief", "worker", "ps", "evaluator"};

bool is_known_job(const std::string& job) {
  return std::find(kKnownJobs.begin(), kKnownJobs.end(), job) != kKnownJobs.end();
}

void check_types(const TfConfig& config) {
  for (const std::string& job : config.cluster.jobs()) {
    if (is_known_job(job)) continue;
    const std::string message = fmt::format("TF_CONFIG: cluster.{} is a job of unknown type", job);
    const auto meant = nearest(job, {kKnownJobs.begin(), kKnownJobs.end()});
    if (meant && !config.cluster.has_job(*meant)) {
      TfConfig fixed = config;
      fixed.cluster = renamed(config.cluster, job, *meant);
      if (config.task_type == job) fixed.task_type = *meant;
      throw TfConfigMistake{message, "did you mean " + *meant, fixed};
    }
    throw TfConfigMistake{
        message, "training knows chief, worker, ps and evaluator",
        with_workers(config, [](const Task& task) { return !is_known_job(task.type); })};
  }
}

void check_reachable(const TfConfig& config) {
  if (config.cluster.num_tasks() < 2) return;
  for (const auto& [job, tasks] : config.cluster.as_map()) {
    for (const auto& [index, address] : tasks) {
      if (!has_port_zero(address)) continue;
      throw TfConfigMistake{
          fmt::format("TF_CONFIG: cluster.{}[{}] is \"{}\": port 0 cannot be connected to", job,
                      index, address),
          "name the port", with_ports(config)};
    }
  }
}

// Checks the task against the rules of RunConfig; worker 0 may take the place of the chief.
void read_task(const TfConfig& config, const ResolveOptions& options, ResolvedCluster& result) {
  const bool worker_leads = !config.cluster.has_job("chief") && !config.cluster.has_job("master") &&
                            config.cluster.num_tasks("worker") > 0;
  try {
    // Every other rule is checked under the names that the user wrote.
    const RunConfigCluster checked = apply_run_config(
        config, options.model_dir, worker_leads && options.worker_zero_may_be_chief);
    result.is_chief = checked.is_chief;
    result.model_dir = checked.model_dir;
  } catch (const TfConfigMistake& mistake) {
    // With parameter servers no worker takes its place.
    if (!worker_leads || options.worker_zero_may_be_chief || config.cluster.has_job("ps")) throw;
    if (options.wants_servers) {
      throw TfConfigMistake{
          mistake.message,
          "weights on parameter servers need a chief and servers: on this machine muster "
          "run --chief --workers=1 --ps=1 -- PROGRAM; elsewhere list one \"chief\" and at "
          "least one \"ps\" in TF_CONFIG of every task; or " +
              mistake.advice,
          mistake.corrected};
    }
    throw TfConfigMistake{
        mistake.message,
        "take a strategy for several workers: --strategy=multi_worker, where the program has that "
        "flag; in its source .train_distribute = distribute::multi_worker_mirrored(), or in a loop "
        "strategy_by_name(\"multi_worker\"): it takes this TF_CONFIG as it is; or unset "
        "TF_CONFIG to train alone; where workers are not peers, " +
            mistake.advice,
        mistake.corrected};
  }
}

// Lists the tasks and their addresses, and finds this one among them.
void fill_places(const TfConfig& config, ResolvedCluster& result) {
  result.task = {*config.task_type, *config.task_index};
  result.workers.clear();
  for (std::string job : {"chief", "worker"}) {
    if (!config.cluster.has_job(job)) continue;
    for (const auto& [index, address] : config.cluster.tasks(job)) {
      result.workers.push_back({job, index});
      result.addresses.push_back(address);
    }
  }
  result.coordinator_address = result.addresses.front();
  result.num_workers = static_cast<int>(result.workers.size());
  result.num_ps = num_ps(config.cluster);
  if (config.cluster.has_job("ps")) {
    for (const auto& [index, address] : config.cluster.tasks("ps"))
      result.ps_addresses.push_back(address);
  }
  const auto place = std::find(result.workers.begin(), result.workers.end(), result.task);
  result.rank =
      place == result.workers.end() ? -1 : static_cast<int>(place - result.workers.begin());
}

// Throws a TfConfigMistake.
ResolvedCluster resolve(const TfConfig& given, const ResolveOptions& options) {
  TfConfig config = given;
  ResolvedCluster result;
  refuse_bad_addresses(config);

  if (config.cluster.has_job("master") && !config.cluster.has_job("chief")) {
    config.cluster = renamed(config.cluster, "master", "chief");
    if (config.task_type == "master") config.task_type = "chief";
    // AI Platform's own configurations, and those of `muster submit`, have that name by rule.
    if (config.environment != "cloud")
      result.notes.push_back("TF_CONFIG: \"master\" is an older name: read as \"chief\"");
  }
  const bool evaluator = config.task_type == "evaluator";
  if (config.cluster.has_job("evaluator") && config.cluster.jobs().size() > 1) {
    if (!evaluator)
      result.notes.push_back(
          "TF_CONFIG: the evaluator needs no entry in cluster: no task waits for it");
    config.cluster = renamed(config.cluster, "evaluator", "");
  }
  if (!config.cluster.has_job("master"))
    check_types(config);  // both names: read_run_config says so
  check_reachable(config);

  read_task(config, options, result);
  if (config.cluster.empty()) return result;

  fill_places(config, result);
  if (evaluator) {
    if (result.task.index > 0) {
      result.notes.push_back(fmt::format("TF_CONFIG: {} waits: only one evaluator works at a time",
                                         result.task.name()));
    }
    result.is_evaluator = true;
    result.num_workers = 0;
    result.num_ps = 0;
  }
  return result;
}

// Returns the result of `read` for a TF_CONFIG; a TfConfigMistake in it becomes an error whose
// example resolves under the same options.
template <typename Read>
ResolvedCluster resolved(const Read& read, const ResolveOptions& options) {
  try {
    return resolve(read(), options);
  } catch (const TfConfigMistake& mistake) {
    throw to_error(mistake, [&](const TfConfig& corrected) { resolve(corrected, options); });
  }
}

}  // namespace

std::string ResolvedCluster::describe() const {
  if (addresses.empty() && !is_evaluator) return "one process, no cluster";
  if (is_evaluator) return fmt::format("{}, evaluates outside of the cluster", task.name());
  const std::string leader =
      fmt::format("coordinator ({}) at {}", workers.front().name(), coordinator_address);
  const std::string servers = num_ps ? fmt::format(", {} parameter server(s)", num_ps) : "";
  if (rank < 0)
    return fmt::format("{}, {} worker(s){}, {}", task.name(), num_workers, servers, leader);
  return fmt::format("{}{}, rank {} of {}{}, {}", task.name(),
                     is_chief && task.type != "chief" ? " (chief)" : "", rank, num_workers, servers,
                     leader);
}

ResolvedCluster resolve_cluster(const TfConfig& config, const ResolveOptions& options) {
  return resolved([&]() -> const TfConfig& { return config; }, options);
}

ResolvedCluster internal::resolve_tf_config_text(const std::string& text,
                                                 const ResolveOptions& options) {
  return resolved([&] { return parse_text(text); }, options);
}

}  // namespace muster::inline v0_1::cluster
