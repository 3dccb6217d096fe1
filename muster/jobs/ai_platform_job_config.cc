// AI Platform Training's job: jobs.create of its API, as `gcloud ai-platform jobs submit training
// --config` takes it.
#include <fmt/format.h>

#include <array>

#include "muster/base/strings.h"
#include "muster/jobs/internal/config_formats.h"
#include "muster/jobs/internal/vertex_machines.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

// A role, and the format's words for it.
struct RoleWords {
  const char* role{};
  const char* name{};  // masterType, masterConfig, and workerCount
};
constexpr std::array<RoleWords, 4> kAiPlatformRoles = {{{"chief", "master"},
                                                        {"worker", "worker"},
                                                        {"ps", "parameterServer"},
                                                        {"evaluator", "evaluator"}}};

// The machines of a tier that is not CUSTOM.
struct Tier {
  const char* name{};
  int workers{};
  int servers{};
  Accelerator accelerator;
};
const std::array<Tier, 6>& tiers() {
  static const std::array<Tier, 6> all = {{{"BASIC", 0, 0, {}},
                                           {"STANDARD_1", 4, 3, {}},
                                           {"PREMIUM_1", 19, 11, {}},
                                           {"BASIC_GPU", 0, 0, {"NVIDIA_TESLA_K80", 1}},
                                           {"BASIC_TPU", 0, 0, {"TPU_V2", 8}},
                                           {"CUSTOM", 0, 0, {}}}};
  return all;
}
constexpr size_t kCustom = 5;

// With the keys that `gcloud ai-platform jobs describe` adds.
const std::vector<std::string> kJobKeys = {
    "trainingInput", "jobId",        "labels",         "createTime", "startTime",  "endTime",
    "state",         "errorMessage", "trainingOutput", "etag",       "jobPosition"};
const std::vector<std::string> kReplicaKeys = {"imageUri",         "acceleratorConfig",
                                               "containerCommand", "containerArgs",
                                               "diskConfig",       "tpuTfVersion"};
const std::vector<std::string> kSearchKeys = {"goal",
                                              "params",
                                              "maxTrials",
                                              "maxParallelTrials",
                                              "maxFailedTrials",
                                              "hyperparameterMetricTag",
                                              "resumePreviousJobId",
                                              "algorithm",
                                              "enableTrialEarlyStopping"};
const std::vector<std::string> kParameterKeys = {
    "parameterName",     "type",           "minValue", "maxValue",
    "categoricalValues", "discreteValues", "scaleType"};

// The keys of trainingInput; gcloud takes labels there as well.
const std::vector<std::string>& input_keys() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> keys = {"scaleTier",
                                     "hyperparameters",
                                     "args",
                                     "region",
                                     "jobDir",
                                     "network",
                                     "serviceAccount",
                                     "runtimeVersion",
                                     "useChiefInTfConfig",
                                     "packageUris",
                                     "pythonModule",
                                     "pythonVersion",
                                     "encryptionConfig",
                                     "enableWebAccess",
                                     "scheduling",
                                     "labels"};
    for (const RoleWords& words : kAiPlatformRoles) {
      keys.push_back(std::string(words.name) + "Type");
      keys.push_back(std::string(words.name) + "Config");
      // There is one master.
      if (std::string_view(words.role) != "chief")
        keys.push_back(std::string(words.name) + "Count");
    }
    return keys;
  }();
  return all;
}

class AiPlatformReader {
 public:
  AiPlatformReader(const ConfigFile& file, const ConfigValue& root, bool bare)
      : root_(file, root, bare ? input_keys() : kJobKeys),
        input_(bare ? root_ : root_.fields("trainingInput", input_keys())),
        bare_(bare) {}

  JobConfig read() {
    if (!bare_) read_job();
    job().labels = (root_.has("labels") ? root_ : input_).pairs("labels");
    read_tier();
    for (const RoleWords& words : kAiPlatformRoles) read_pool(words);
    check_images();
    read_rest();
    if (input_.has("hyperparameters")) read_search(input_.fields("hyperparameters", kSearchKeys));
    return std::move(config_);
  }

 private:
  JobSpec& job() { return config_.job; }

  void read_job() {
    // jobs.create names the job so; gcloud takes the name from its command line.
    if (const auto id = root_.text("jobId")) job().name = *id;
    if (!root_.has("trainingInput")) {
      root_.note("trainingInput", "there is no trainingInput, or nothing in it",
                 "write scaleTier, masterType and the like below it");
    }
  }

  void read_tier() {
    std::vector<std::string> names;
    for (const Tier& tier : tiers()) names.emplace_back(tier.name);
    // The intention of an unknown tier is not known: most have machines of their own.
    const bool wrong = input_.has("scaleTier") && !input_.choice("scaleTier", names);
    const size_t index = wrong ? kCustom : input_.choice("scaleTier", names).value_or(0);
    tier_ = &tiers()[index];
    custom_ = index == kCustom;
    if (custom_ && !wrong && !input_.has("masterType")) {
      input_.note("scaleTier",
                  fmt::format("{} is CUSTOM, and there is no masterType", input_.path("scaleTier")),
                  "add masterType, the machine of the master, such as n1-standard-8",
                  {"masterType"});
    }
  }

  // With another tier than CUSTOM the tier defines the machines.
  void refuse_without_custom(const std::string& key) {
    if (custom_ || !input_.has(key)) return;
    const bool given = input_.has("scaleTier");
    input_.note(key,
                fmt::format("{} goes with scaleTier CUSTOM alone, and {}", input_.path(key),
                            given ? fmt::format("scaleTier is {}", tier_->name)
                                  : std::string("there is no scaleTier")),
                "write scaleTier: CUSTOM, or take the key away", {"scaleTier"});
  }

  void read_pool(const RoleWords& words) {
    const std::string name = words.name;
    const std::string type_key = name + "Type", count_key = name + "Count",
                      config_key = name + "Config";
    const bool master = std::string_view(words.role) == "chief";
    Pool pool{.role = words.role, .count = master ? 1 : 0};
    refuse_without_custom(type_key);
    if (!master) refuse_without_custom(count_key);
    if (custom_) {
      pool.machine_type = input_.text(type_key).value_or("");
      if (!master) pool.count = static_cast<int>(input_.whole(count_key, kMostTasks).value_or(0));
      if (!master && pool.count > 0 && pool.machine_type.empty()) {
        input_.note(count_key,
                    fmt::format("{} is {}, and there is no {}", input_.path(count_key), pool.count,
                                type_key),
                    fmt::format("add {}, the machine of each, such as n1-standard-8", type_key),
                    {type_key});
      }
      if (pool.count == 0 && !pool.machine_type.empty()) {
        input_.note(type_key,
                    fmt::format("{} is {}, but {} is 0 or missing", input_.path(type_key),
                                pool.machine_type, count_key),
                    fmt::format("add {}, or take {} away", count_key, type_key), {count_key});
      }
    } else if (std::string_view(words.role) == "worker") {
      pool.count = tier_->workers;
    } else if (std::string_view(words.role) == "ps") {
      pool.count = tier_->servers;
    }
    if (pool.count > 0 && std::string_view(words.role) != "ps")
      pool.accelerator = tier_->accelerator;
    read_replica(config_key, pool);
    if (pool.count > 0) job().pools.push_back(std::move(pool));
  }

  void read_replica(const std::string& key, Pool& pool) {
    if (!input_.has(key)) return;
    const ConfigFields replica = input_.fields(key, kReplicaKeys);
    if (pool.count == 0) {
      const std::string words = key.substr(0, key.size() - std::string_view("Config").size());
      input_.note(key,
                  fmt::format("{} applies to tasks that the job does not have", input_.path(key)),
                  fmt::format("add {0}Count and {0}Type, or take it away", words),
                  {words + "Count", words + "Type"});
      return;
    }
    pool.image = replica.text("imageUri").value_or("");
    pool.command = replica.texts("containerCommand");
    pool.args = replica.texts("containerArgs");
    if (pool.image.empty() && !pool.command.empty() && std::string_view(pool.role) == "chief") {
      replica.note("containerCommand",
                   fmt::format("{} needs an imageUri next to it", replica.path("containerCommand")),
                   "add imageUri, or name the program on the command line instead");
    }
    if (replica.has("acceleratorConfig")) {
      const ConfigFields accelerator = replica.fields("acceleratorConfig", {"type", "count"});
      pool.accelerator.type = accelerator.text("type").value_or("");
      pool.accelerator.count = static_cast<int>(accelerator.whole("count", 1024).value_or(0));
      const bool read = !accelerator.is_spoken_of("type") && !accelerator.is_spoken_of("count");
      if (read && pool.accelerator.type.empty() != (pool.accelerator.count == 0)) {
        replica.note("acceleratorConfig",
                     fmt::format("{} needs both a type and a count of 1 or more",
                                 replica.path("acceleratorConfig")),
                     "write count: 1 and type: NVIDIA_TESLA_T4, or take it away");
      }
      // Other places than Google's have others, so that it is not an error here.
      if (const auto meant = meant_accelerator(pool.accelerator.type)) {
        config_.notes.push_back(
            fmt::format("{} is {}, which Google's services do not have; did "
                        "you mean {}?",
                        accelerator.path("type"), pool.accelerator.type, *meant));
      }
    }
    if (replica.has("diskConfig")) {
      const ConfigFields disk = replica.fields("diskConfig", {"bootDiskType", "bootDiskSizeGb"});
      pool.disk_type = disk.text("bootDiskType").value_or("");
      pool.disk_gigabytes = static_cast<int>(disk.whole("bootDiskSizeGb").value_or(0));
    }
    if (replica.has("tpuTfVersion")) {
      config_.notes.push_back(replica.path("tpuTfVersion") + " is for TensorFlow: it is not used");
    }
  }

  // A task without an image has the master's.
  void check_images() {
    const std::string image = job().pools.front().image;
    for (Pool& pool : job().pools) {
      if (!pool.image.empty() && image.empty()) {
        input_.note(pool.role == "ps" ? "parameterServerConfig" : pool.role + "Config",
                    fmt::format("the {} has an imageUri, and the master has none", pool.role),
                    "add masterConfig.imageUri: all tasks run from images, or none");
      }
      if (pool.image.empty()) pool.image = image;
    }
  }

  void read_rest() {
    JobSpec& job = config_.job;
    job.args = input_.texts("args");
    job.region = input_.text("region").value_or("");
    job.job_dir = input_.text("jobDir").value_or("");
    job.network = input_.text("network").value_or("");
    job.service_account = input_.text("serviceAccount").value_or("");
    const std::string runtime = input_.text("runtimeVersion").value_or("");
    job.chief_in_tf_config = input_.truth("useChiefInTfConfig").value_or(says_chief(runtime));
    for (const char* of_python : {"packageUris", "pythonModule", "pythonVersion"}) {
      if (!input_.has(of_python)) continue;
      config_.notes.push_back(
          fmt::format("{} is of a program in Python: the program on the command line runs instead",
                      input_.path(of_python)));
    }
    for (const char* of_the_service : {"encryptionConfig", "enableWebAccess"}) {
      if (!input_.has(of_the_service)) continue;
      config_.notes.push_back(input_.path(of_the_service) +
                              " is AI Platform's own: it is not used");
    }
    if (input_.has("scheduling")) {
      const ConfigFields scheduling =
          input_.fields("scheduling", {"maxRunningTime", "maxWaitTime", "priority"});
      job.scheduling.max_running_seconds = scheduling.seconds("maxRunningTime").value_or(0);
      job.scheduling.max_wait_seconds = scheduling.seconds("maxWaitTime").value_or(0);
      job.scheduling.priority = static_cast<int>(scheduling.whole("priority", 1000).value_or(0));
    }
  }

  // Since version 2.1 the runtime calls the master chief.
  static bool says_chief(const std::string& runtime) {
    const auto parts = split(runtime, '.');
    const auto major = parse_int(parts[0]);
    const auto minor = parts.size() > 1 ? parse_int(parts[1]) : std::nullopt;
    return major && (*major > 2 || (*major == 2 && minor.value_or(0) >= 1));
  }

  void read_search(const ConfigFields& fields) {
    HyperParameterSearch search;
    const size_t before = fields.file().mistakes->size();
    const auto goal = fields.choice("goal", {"MAXIMIZE", "MINIMIZE"});
    if (!goal && !fields.is_spoken_of("goal")) {
      input_.note("hyperparameters", fields.path("goal") + " is missing",
                  "write goal: MAXIMIZE or goal: MINIMIZE");
    }
    search.maximize = goal.value_or(0) == 0;
    search.max_trials = count_of_trials(fields, "maxTrials");
    search.max_parallel_trials = count_of_trials(fields, "maxParallelTrials");
    search.max_failed_trials = static_cast<int>(fields.whole("maxFailedTrials").value_or(0));
    if (const auto tag = fields.text("hyperparameterMetricTag")) search.metric_tag = *tag;
    search.early_stopping = fields.truth("enableTrialEarlyStopping").value_or(false);
    using Algorithm = HyperParameterSearch::Algorithm;
    constexpr std::array kAlgorithms = {Algorithm::kDefault, Algorithm::kGrid, Algorithm::kRandom};
    search.algorithm = kAlgorithms[fields
                                       .choice("algorithm", {"ALGORITHM_UNSPECIFIED", "GRID_SEARCH",
                                                             "RANDOM_SEARCH"})
                                       .value_or(0)];
    if (fields.has("resumePreviousJobId")) {
      config_.notes.push_back(fields.path("resumePreviousJobId") +
                              " is not used: a search with the same --job-dir continues");
    }
    std::vector<ConfigPlace> places;
    for (const ConfigValue* item : fields.list("params")) {
      const size_t noted = fields.file().mistakes->size();
      HyperParameter parameter = read_parameter(ConfigFields(fields.file(), *item, kParameterKeys));
      if (fields.file().mistakes->size() != noted) continue;
      search.parameters.push_back(std::move(parameter));
      places.push_back(item->place);
    }
    check_search_at(search, input_, "hyperparameters", places, before);
    job().search = std::move(search);
  }

  static HyperParameter read_parameter(const ConfigFields& fields) {
    HyperParameter parameter;
    const auto name = fields.text("parameterName");
    using Type = HyperParameter::Type;
    constexpr std::array kTypes = {Type::kDouble, Type::kInteger, Type::kCategorical,
                                   Type::kDiscrete};
    const auto type = fields.choice("type", {"DOUBLE", "INTEGER", "CATEGORICAL", "DISCRETE"},
                                    {{"FLOAT", "DOUBLE"},
                                     {"REAL", "DOUBLE"},
                                     {"NUMBER", "DOUBLE"},
                                     {"UNIFORM", "DOUBLE"},
                                     {"LONG", "INTEGER"},
                                     {"STRING", "CATEGORICAL"},
                                     {"TEXT", "CATEGORICAL"},
                                     {"BOOL", "CATEGORICAL"},
                                     {"BOOLEAN", "CATEGORICAL"},
                                     {"CHOICE", "CATEGORICAL"},
                                     {"ENUM", "CATEGORICAL"}});
    for (const auto& [key, there] :
         {std::pair("parameterName", name.has_value()), std::pair("type", type.has_value())}) {
      if (there) continue;
      fields.note(key, fmt::format("{} is missing", fields.path(key)),
                  "each of params has a parameterName and a type");
    }
    if (!name || !type) return parameter;
    parameter.name = *name;
    parameter.type = kTypes[*type];
    const bool range = parameter.type == Type::kDouble || parameter.type == Type::kInteger;
    const auto least = fields.number("minValue"), most = fields.number("maxValue");
    if (range && (!least || !most)) {
      fields.note("type",
                  fmt::format("{} '{}' needs minValue and maxValue",
                              parameter.type == Type::kDouble ? "DOUBLE" : "INTEGER", *name),
                  "write both", {"minValue", "maxValue"});
    }
    parameter.min_value = least.value_or(0);
    parameter.max_value = most.value_or(0);
    parameter.categories = fields.texts("categoricalValues");
    parameter.values = fields.numbers("discreteValues");
    using Scale = HyperParameter::Scale;
    constexpr std::array kScales = {Scale::kNone, Scale::kLinear, Scale::kLog, Scale::kReverseLog};
    parameter.scale = kScales[fields
                                  .choice("scaleType", {"NONE", "UNIT_LINEAR_SCALE",
                                                        "UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE"})
                                  .value_or(0)];
    return parameter;
  }

  const ConfigFields root_;
  const ConfigFields input_;
  const bool bare_;
  const Tier* tier_ = nullptr;
  bool custom_ = false;
  JobConfig config_;
};

}  // namespace

JobConfig read_ai_platform(const ConfigFile& file, const ConfigValue& root, bool bare) {
  return AiPlatformReader(file, root, bare).read();
}

}  // namespace muster::inline v0_1::jobs::internal
