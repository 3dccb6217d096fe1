#include "muster/jobs/internal/vertex_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/files/regular_expression.h"
#include "muster/jobs/internal/task_words.h"
#include "muster/jobs/internal/vertex_machines.h"
#include "muster/jobs/task_start.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDefaultMachine = "n1-standard-4";
// The roles, at the number of their pool.
constexpr std::array kPools = {"chief", "worker", "ps", "evaluator"};

void check_labels(const JobSpec& job) {
  static const RegularExpression kKey("[a-z][a-z0-9_-]{0,62}");
  static const RegularExpression kValue("[a-z0-9_-]{0,63}");
  for (const auto& [key, value] : job.labels) {
    if (kKey.full_match(key) && kValue.full_match(value)) continue;
    throw invalid_argument(fmt::format("the label '{}' with the value '{}' cannot be", key, value),
                           "labels of Vertex AI are small letters, digits, '_' and '-', 63 at "
                           "most; a key begins with a letter");
  }
}

// Variables by which a job may bring its own protection: files that are in its image, or mounted.
const std::set<std::string>& own_protection() {
  static const std::set<std::string> all = {"MUSTER_JOB_TOKEN_FILE", "MUSTER_TLS_CERT",
                                            "MUSTER_TLS_KEY", "MUSTER_TLS_CA",
                                            "MUSTER_TLS_SERVER_NAME"};
  return all;
}

bool is_protected(const Pool& pool) {
  return std::ranges::any_of(pool.environment, [](const auto& variable) {
    const auto& [name, value] = variable;
    return name == "MUSTER_JOB_TOKEN_FILE" || name == "MUSTER_TLS_CERT" ||
           (name == "MUSTER_INSECURE" && value == "1");
  });
}

// Makes one resource, and collects the notes on the way.
class Maker {
 public:
  Maker(const JobSpec& job, const std::string& name, const VertexOptions& options,
        const std::string& token)
      : job_(job), name_(name), options_(options), token_(token) {}

  VertexJob make() {
    if (job_.task_count() == 0) {
      throw invalid_argument("the job has no tasks", "give it a chief, or workers");
    }
    check_labels(job_);
    VertexJob result{.tuning = job_.search.has_value()};
    result.resource["displayName"] = name_;
    Json spec = custom_job_spec();
    if (result.tuning) {
      const HyperParameterSearch& search = *job_.search;
      result.resource["studySpec"] = study_spec(search);
      result.resource["maxTrialCount"] = search.max_trials;
      result.resource["parallelTrialCount"] = search.max_parallel_trials;
      if (search.max_failed_trials > 0) {
        result.resource["maxFailedTrialCount"] = search.max_failed_trials;
      }
    }
    result.resource[result.tuning ? "trialJobSpec" : "jobSpec"] = std::move(spec);
    for (const auto& [key, value] : job_.labels) result.resource["labels"][key] = value;
    result.notes = std::move(notes_);
    return result;
  }

 private:
  Json container_spec(const Pool& pool) {
    Json result = {{"imageUri", image_of(pool, options_.image)}};
    if (const auto words = command_of(job_, pool); !words.empty()) {
      result["command"] = words;
    }
    if (const auto words = arguments_of(job_, pool); !words.empty()) {
      result["args"] = words;
    }
    const auto set = [&](const std::string& name, const std::string& value) {
      result["env"].push_back({{"name", name}, {"value", value}});
    };
    check_environment(pool, own_protection());
    for (const auto& [name, value] : pool.environment) set(name, value);
    if (job_.task_count() > 1) {
      set("MUSTER_JOB_ID", name_);
      if (!token_.empty()) set("MUSTER_JOB_TOKEN", token_);
    }
    return result;
  }

  Json pool_spec(const Pool& pool, int count) {
    const VertexMachine machine = vertex_machine(
        pool, options_.machine_type.empty() ? kDefaultMachine : options_.machine_type);
    if (!machine.note.empty() && (notes_.empty() || notes_.back() != machine.note)) {
      notes_.push_back(machine.note);
    }
    Json spec = {{"machineSpec", {{"machineType", machine.type}}}, {"replicaCount", count}};
    if (machine.accelerator.count > 0) {
      spec["machineSpec"]["acceleratorType"] = machine.accelerator.type;
      spec["machineSpec"]["acceleratorCount"] = machine.accelerator.count;
    }
    if (!pool.disk_type.empty()) spec["diskSpec"]["bootDiskType"] = pool.disk_type;
    if (pool.disk_gigabytes > 0) spec["diskSpec"]["bootDiskSizeGb"] = pool.disk_gigabytes;
    spec["containerSpec"] = container_spec(pool);
    return spec;
  }

  Json pool_specs() {
    std::array<Json, kPools.size()> specs;
    specs.fill(Json::object());
    size_t used = 0;
    const auto put = [&](size_t at, Json spec) {
      specs[at] = std::move(spec);
      used = std::max(used, at + 1);
    };
    for (size_t i = 0; i < kPools.size(); ++i) {
      const Pool* pool = job_.pool(kPools[i]);
      if (pool == nullptr) continue;
      if (i == 1 && job_.pool("chief") == nullptr) {
        // The first pool has one task: without a chief it is the first worker.
        put(0, pool_spec(*pool, 1));
        if (pool->count > 1) put(1, pool_spec(*pool, pool->count - 1));
      } else {
        put(i, pool_spec(*pool, pool->count));
      }
    }
    if (used > 0 && specs[0].empty()) {
      throw invalid_argument("the job has neither a chief nor a worker",
                             "Vertex AI's first pool has one task, which leads: add a chief");
    }
    return std::vector<Json>(specs.begin(), specs.begin() + static_cast<std::ptrdiff_t>(used));
  }

  Json custom_job_spec() {
    Json spec = {{"workerPoolSpecs", pool_specs()}};
    const Scheduling& scheduling = job_.scheduling;
    if (scheduling.max_running_seconds > 0) {
      spec["scheduling"]["timeout"] = fmt::format("{}s", scheduling.max_running_seconds);
    }
    // A group does not take back a task that was lost: all begin again, from the checkpoint.
    if (scheduling.restart_on_worker_restart || job_.task_count() > 1) {
      spec["scheduling"]["restartJobOnWorkerRestart"] = true;
    }
    if (scheduling.restarts == 0) spec["scheduling"]["disableRetries"] = true;
    if (!job_.service_account.empty()) spec["serviceAccount"] = job_.service_account;
    if (!job_.network.empty()) spec["network"] = job_.network;
    if (job_.job_dir.starts_with("gs://")) {
      spec["baseOutputDirectory"]["outputUriPrefix"] = job_.job_dir;
    } else if (!job_.job_dir.empty()) {
      notes_.push_back(fmt::format(
          "the job directory {} is not gs:// bucket: AIP_MODEL_DIR and its like are not set{}",
          job_.job_dir,
          job_.job_dir.find("://") == std::string::npos
              ? ", and a path in the container is lost with it"
              : ""));
    }
    if (!job_.tensorboard.empty()) spec["tensorboard"] = job_.tensorboard;
    if (!job_.chief_in_tf_config) {
      notes_.push_back("useChiefInTfConfig is false: Vertex AI always writes \"chief\"");
    }
    if (scheduling.max_wait_seconds > 0) {
      notes_.push_back("the longest time to wait is not used: the job waits for its machines");
    }
    if (scheduling.priority != 0) notes_.push_back("the priority is not used");
    return spec;
  }

  static Json parameter(const HyperParameter& from) {
    Json result = {{"parameterId", from.name}};
    switch (from.type) {
      case HyperParameter::Type::kDouble:
        result["doubleValueSpec"] = {{"minValue", from.min_value}, {"maxValue", from.max_value}};
        break;
      case HyperParameter::Type::kInteger:
        // Numbers of 64 bits are texts in Google's JSON.
        result["integerValueSpec"] = {
            {"minValue", fmt::format("{}", static_cast<int64_t>(from.min_value))},
            {"maxValue", fmt::format("{}", static_cast<int64_t>(from.max_value))}};
        break;
      case HyperParameter::Type::kCategorical:
        result["categoricalValueSpec"]["values"] = from.categories;
        break;
      case HyperParameter::Type::kDiscrete:
        result["discreteValueSpec"]["values"] = from.values;
        break;
    }
    switch (from.scale) {
      case HyperParameter::Scale::kNone:
        break;
      case HyperParameter::Scale::kLinear:
        result["scaleType"] = "UNIT_LINEAR_SCALE";
        break;
      case HyperParameter::Scale::kLog:
        result["scaleType"] = "UNIT_LOG_SCALE";
        break;
      case HyperParameter::Scale::kReverseLog:
        result["scaleType"] = "UNIT_REVERSE_LOG_SCALE";
        break;
    }
    return result;
  }

  Json study_spec(const HyperParameterSearch& search) {
    Json spec;
    spec["metrics"] = Json::array(
        {{{"metricId", search.metric_tag}, {"goal", search.maximize ? "MAXIMIZE" : "MINIMIZE"}}});
    spec["parameters"] = Json::array();
    for (const HyperParameter& it : search.parameters) spec["parameters"].push_back(parameter(it));
    if (search.algorithm == HyperParameterSearch::Algorithm::kGrid) {
      spec["algorithm"] = "GRID_SEARCH";
    } else if (search.algorithm == HyperParameterSearch::Algorithm::kRandom) {
      spec["algorithm"] = "RANDOM_SEARCH";
    }
    if (search.early_stopping) {
      spec["medianAutomatedStoppingSpec"]["useElapsedDuration"] = false;
    }
    notes_.push_back(fmt::format(
        "Vertex AI takes the metric {} from what the program reports in the file of its "
        "hypertune package, as programs of Muster do with what they evaluate",
        search.metric_tag));
    return spec;
  }

  const JobSpec& job_;
  const std::string& name_;
  const VertexOptions& options_;
  const std::string& token_;
  std::vector<std::string> notes_;
};

}  // namespace

bool needs_token(const JobSpec& job) {
  const auto protects = [](const Pool& pool) { return pool.count == 0 || is_protected(pool); };
  return job.task_count() > 1 && !std::ranges::all_of(job.pools, protects);
}

VertexJob vertex_job(const JobSpec& job, const std::string& name, const VertexOptions& options,
                     const std::string& token) {
  return Maker(job, name, options, token).make();
}

}  // namespace muster::inline v0_1::jobs::internal
