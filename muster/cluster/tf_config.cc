#include "muster/cluster/tf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/cluster/internal/tf_config_corrections.h"
#include "muster/cluster/internal/tf_config_mistake.h"

namespace muster::inline v0_1::cluster {
namespace {

using nlohmann::json;

std::string quoted_cluster(const TfConfig& config, const std::string& job = {}) {
  json all = json::parse(to_json_text(config))["cluster"];
  return (job.empty() ? all : all[job]).dump();
}

// Returns the folder of the run: the program's, or else TF_CONFIG's.
std::optional<std::string> read_model_dir(const TfConfig& config,
                                          const std::optional<std::string>& model_dir) {
  if (model_dir && model_dir->empty())
    throw invalid_argument("model_dir is empty", "name a folder");
  const auto wrong_dir = [&](const std::string& problem) {
    TfConfig fixed = config;
    fixed.model_dir.reset();
    return TfConfigMistake{
        fmt::format("TF_CONFIG: model_dir is \"{}\": {}", *config.model_dir, problem),
        "leave model_dir out of TF_CONFIG, or out of the program", fixed};
  };
  if (config.model_dir && config.model_dir->empty()) throw wrong_dir("must not be empty");
  if (model_dir && config.model_dir && *model_dir != *config.model_dir)
    throw wrong_dir(fmt::format("the program says \"{}\"", *model_dir));
  return model_dir ? model_dir : config.model_dir;
}

void check_service(const TfConfig& config) {
  if (config.service.empty() || config.service.front() == '{') return;
  TfConfig fixed = config;
  fixed.service.clear();
  throw TfConfigMistake{fmt::format("TF_CONFIG: service is {}: must be an object", config.service),
                        "write {...}, or leave it away", fixed};
}

// Reads a TF_CONFIG without a cluster: this process is worker 0, alone.
void read_local(const TfConfig& config, RunConfigCluster* result) {
  result->task_type = config.task_type.value_or("worker");
  result->task_id = config.task_index.value_or(0);
  if (result->task_type != "worker") {
    throw TfConfigMistake{
        fmt::format("TF_CONFIG: task.type is \"{}\", but there is no cluster: it must be "
                    "\"worker\"",
                    result->task_type),
        "add the cluster, or leave TF_CONFIG unset to run alone",
        with_task(example_config(), result->task_type == "chief" ? "chief" : "worker", 0)};
  }
  if (result->task_id != 0) {
    throw TfConfigMistake{
        fmt::format("TF_CONFIG: task.index is {}, but there is no cluster: it must be 0",
                    result->task_id),
        "add the cluster, or use index 0",
        {.task_type = "worker", .task_index = 0}};
  }
  result->master = config.session_master.value_or("");
  result->evaluation_master = config.eval_session_master.value_or("");
}

// Checks a cluster that calls its chief "master", the older name: it must have no "chief" and no
// evaluator.
void check_master(const TfConfig& config) {
  const std::string type = config.task_type.value_or("");
  if (config.cluster.has_job("chief")) {
    const ClusterSpec::Tasks chiefs = config.cluster.tasks("chief");
    const auto is_chief_too = [&](const Task& task) {
      const auto same = [&](const auto& chief) {
        return chief.second == config.cluster.address(task);
      };
      return chiefs.empty() || std::any_of(chiefs.begin(), chiefs.end(), same);
    };
    const TfConfig renamed = moved(config, [&](const Task& task) {
      return task.type == "master" && is_chief_too(task) ? Task{"chief", task.index} : task;
    });
    throw TfConfigMistake{
        fmt::format(
            "TF_CONFIG: cluster.master is {} and cluster.chief is {}: both name the one chief",
            quoted_cluster(config, "master"), quoted_cluster(config, "chief")),
        "keep cluster.chief only",
        with_workers(renamed, [](const Task& task) { return task.type == "master"; })};
  }
  if (type == "evaluator") {
    throw TfConfigMistake{
        "TF_CONFIG: task.type is \"evaluator\": a cluster with cluster.master has none",
        "call the master \"chief\"", moved(config, [](const Task& task) {
          return task.type == "master" ? Task{"chief", task.index} : task;
        })};
  }
}

// Checks that the cluster has a chief. `chief` is the job that leads; it may have several tasks
// only when it is "worker".
void check_one_chief(const TfConfig& config, const std::string& chief, bool worker_leads) {
  if (!config.cluster.has_job(chief) || config.cluster.num_tasks(chief) == 0) {
    throw TfConfigMistake{fmt::format("TF_CONFIG: cluster is {}: it must have one \"chief\" task",
                                      quoted_cluster(config)),
                          "make one task the chief", with_chief(config)};
  }
  if (!worker_leads && config.cluster.num_tasks(chief) > 1) {
    throw TfConfigMistake{fmt::format("TF_CONFIG: cluster.{} is {}: there must be exactly one",
                                      chief, quoted_cluster(config, chief)),
                          "let the others be workers", with_one(config, chief)};
  }
}

// Returns the task that TF_CONFIG names; the cluster may not have it.
Task read_task(const TfConfig& config, const std::string& chief) {
  const std::string type = config.task_type.value_or("");
  if (type.empty()) {
    throw TfConfigMistake{
        "TF_CONFIG: task.type is missing: with a cluster, every task must know its own",
        fmt::format("set task.type to one of {}", join_quoted(config.cluster.jobs())),
        with_task(config, chief, config.task_index.value_or(0))};
  }
  if (!config.task_index) {
    throw TfConfigMistake{
        "TF_CONFIG: task.index is missing: with a cluster, every task must know its own",
        "set task.index", with_task(config, type, 0)};
  }
  if (*config.task_index < 0) {
    throw TfConfigMistake{
        fmt::format("TF_CONFIG: task.index is {}: it must not be negative", *config.task_index),
        "count from 0", with_task(config, type, 0)};
  }
  return {type, *config.task_index};
}

void check_in_cluster(const TfConfig& config, const Task& task, const std::string& chief) {
  if (!config.cluster.has_job(task.type)) {
    throw TfConfigMistake{fmt::format("TF_CONFIG: task.type is \"{}\": cluster has only {}",
                                      task.type, join_quoted(config.cluster.jobs())),
                          "use a type that is in the cluster", with_known_task(config, chief)};
  }
  if (config.cluster.has_task(task)) return;
  const ClusterSpec::Tasks& tasks = config.cluster.tasks(task.type);
  throw TfConfigMistake{
      fmt::format("TF_CONFIG: task.index is {}: cluster.{} is {}, which has no such index",
                  task.index, task.type, quoted_cluster(config, task.type)),
      "use the place of this task in the list",
      tasks.empty() ? with_task(config, chief, config.cluster.tasks(chief).begin()->first)
                    : with_task(config, task.type, tasks.rbegin()->first)};
}

}  // namespace

void refuse_bad_addresses(const TfConfig& config) {
  const auto bad = find_bad_address(config.cluster);
  if (!bad) return;
  throw TfConfigMistake{fmt::format("TF_CONFIG: cluster.{}[{}] is {}: {}", bad->task.type,
                                    bad->task.index, json(bad->address).dump(), bad->problem),
                        bad->advice, made_usable(config)};
}

void check_addresses(const TfConfig& config) {
  try {
    refuse_bad_addresses(config);
  } catch (const TfConfigMistake& mistake) {
    throw to_error(mistake, accept_for_some_program);
  }
}

RunConfigCluster read_run_config(const TfConfig& config,
                                 const std::optional<std::string>& model_dir, bool worker_leads) {
  try {
    return apply_run_config(config, model_dir, worker_leads);
  } catch (const TfConfigMistake& mistake) {
    throw to_error(mistake, [&](const TfConfig& corrected) {
      refuse_bad_addresses(corrected);
      apply_run_config(corrected, model_dir, worker_leads);
    });
  }
}

RunConfigCluster apply_run_config(const TfConfig& config,
                                  const std::optional<std::string>& model_dir, bool worker_leads) {
  RunConfigCluster result{.cluster = config.cluster, .service = config.service};
  result.model_dir = read_model_dir(config, model_dir);
  check_service(config);
  if (config.cluster.empty()) {
    read_local(config, &result);
    return result;
  }
  const bool has_master = config.cluster.has_job("master");
  const std::string chief = has_master ? "master" : worker_leads ? "worker" : "chief";
  if (has_master) check_master(config);
  check_one_chief(config, chief, worker_leads);
  const Task task = read_task(config, chief);
  result.task_type = task.type;
  result.task_id = task.index;
  if (task.type == "evaluator") {
    // The evaluator is outside the cluster.
    result.cluster = ClusterSpec();
    result.evaluation_master = config.eval_session_master.value_or("");
    result.is_chief = false;
    result.num_worker_replicas = 0;
    result.global_id_in_cluster = std::nullopt;
    return result;
  }
  check_in_cluster(config, task, chief);
  if (config.session_master) {
    result.master = *config.session_master;
  } else if (config.cluster.num_tasks() > 1) {
    result.master = "grpc://" + config.cluster.address(task);
  }
  result.is_chief = task.type == chief &&
                    (!worker_leads || task.index == config.cluster.tasks(chief).begin()->first);
  result.num_ps_replicas = num_ps(config.cluster);
  result.num_worker_replicas = num_workers(config.cluster);
  result.global_id_in_cluster = global_id(config.cluster, task);
  return result;
}

}  // namespace muster::inline v0_1::cluster
