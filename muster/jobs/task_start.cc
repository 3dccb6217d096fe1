#include "muster/jobs/task_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/error.h"

namespace muster::inline v0_1::jobs {
namespace {

constexpr std::array<const char*, 4> kOrder = {"chief", "worker", "ps", "evaluator"};

// TrainingInput as a program finds it in TF_CONFIG, with counts as texts.
nlohmann::ordered_json training_input(const JobSpec& job) {
  nlohmann::ordered_json input = {{"scale_tier", "CUSTOM"}};
  const auto add = [&](const char* role, const std::string& name, bool counted) {
    const Pool* pool = job.pool(role);
    if (pool == nullptr) return;
    if (!pool->machine_type.empty()) input[name + "_type"] = pool->machine_type;
    if (counted) input[name + "_count"] = std::to_string(pool->count);
  };
  add("chief", "master", false);
  add("worker", "worker", true);
  add("ps", "parameter_server", true);
  add("evaluator", "evaluator", true);
  if (!job.args.empty()) input["args"] = job.args;
  if (!job.region.empty()) input["region"] = job.region;
  if (!job.job_dir.empty()) input["job_dir"] = job.job_dir;
  return input;
}

}  // namespace

std::string JobTask::name() const { return fmt::format("{}-{}", role, index); }

std::vector<JobTask> tasks_of(const JobSpec& job) {
  std::vector<JobTask> tasks;
  for (const char* role : kOrder) {
    const Pool* pool = job.pool(role);
    for (int i = 0; pool != nullptr && i < pool->count; ++i) tasks.push_back({role, i});
  }
  return tasks;
}

std::vector<Pool> pools_of_counts(bool chief, int workers, int servers, bool evaluator) {
  std::vector<Pool> pools;
  if (chief || servers > 0) pools.push_back({.role = "chief", .count = 1});
  if (workers > 0) pools.push_back({.role = "worker", .count = workers});
  if (servers > 0) pools.push_back({.role = "ps", .count = servers});
  if (evaluator) pools.push_back({.role = "evaluator", .count = 1});
  return pools;
}

std::vector<std::string> words_of(const JobSpec& job, const Pool& pool) {
  std::vector<std::string> words = job.program.empty() ? pool.command : job.program;
  const std::vector<std::string>& args = pool.args.empty() ? job.args : pool.args;
  words.insert(words.end(), args.begin(), args.end());
  const auto names_job_dir = [](const std::string& word) {
    return word == "--job-dir" || word == "--job_dir" || word.starts_with("--job-dir=") ||
           word.starts_with("--job_dir=");
  };
  // A --job_dir that the user wrote stays.
  if (!job.job_dir.empty() && std::ranges::none_of(words, names_job_dir)) {
    words.emplace_back("--job-dir");
    words.push_back(job.job_dir);
  }
  return words;
}

void check_environment(const Pool& pool, const std::set<std::string>& left_to_job) {
  static const std::set<std::string> kOurs = {
      "TF_CONFIG",        "CLUSTER_SPEC",          "JOB_COMPLETION_INDEX", "MUSTER_JOB_ID",
      "MUSTER_JOB_TOKEN", "MUSTER_JOB_TOKEN_FILE", "MUSTER_TLS_CERT",      "MUSTER_TLS_KEY",
      "MUSTER_TLS_CA",    "MUSTER_TLS_SERVER_NAME"};
  for (const auto& [name, value] : pool.environment) {
    if (!kOurs.contains(name) || left_to_job.contains(name)) continue;
    throw invalid_argument(
        fmt::format("the environment of the {} sets {}, which differs between jobs and tasks",
                    pool.role, name),
        "leave it out: the target sets it for each task");
  }
}

std::string tf_config_of(const JobSpec& job, const JobTask& task,
                         const std::vector<std::string>& addresses) {
  const auto name_of = [&](const std::string& role) {
    return role == "chief" && !job.chief_in_tf_config ? std::string("master") : role;
  };
  const std::vector<JobTask> tasks = tasks_of(job);
  nlohmann::ordered_json cluster = nlohmann::ordered_json::object();
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].role == "evaluator") continue;
    if (i >= addresses.size()) {
      throw internal_error(
          fmt::format("{} addresses for {} tasks", addresses.size(), tasks.size()));
    }
    cluster[name_of(tasks[i].role)].push_back(addresses[i]);
  }
  const nlohmann::ordered_json config = {
      {"cluster", cluster},
      {"task",
       {{"type", name_of(task.role)}, {"index", task.index}, {"trial", job.trial}, {"cloud", ""}}},
      {"job", training_input(job).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)},
      {"environment", "cloud"}};
  return config.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::pair<std::string, std::string>> variables_of(const JobSpec& job,
                                                              const JobTask& task) {
  std::vector<std::pair<std::string, std::string>> variables;
  if (const Pool* pool = job.pool(task.role)) variables = pool->environment;
  const auto add = [&](const std::string& name, const std::string& value) {
    const bool given = std::ranges::any_of(
        variables, [&](const auto& variable) { return variable.first == name; });
    if (!given) variables.emplace_back(name, value);
  };
  add("CLOUD_ML_JOB_ID", job.name);
  if (!job.trial.empty()) add("CLOUD_ML_TRIAL_ID", job.trial);
  return variables;
}

}  // namespace muster::inline v0_1::jobs
