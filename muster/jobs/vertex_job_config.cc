// Vertex AI's jobs: CustomJob and HyperparameterTuningJob of its API, and the body of a jobSpec, as
// `gcloud ai custom-jobs create --config` takes it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "muster/base/printable.h"
#include "muster/jobs/internal/config_formats.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

constexpr std::array<const char*, 4> kVertexRoles = {"chief", "worker", "ps", "evaluator"};

// With the keys that the service adds when it describes a job.
const std::vector<std::string> kCustomJobKeys = {
    "displayName", "jobSpec",       "labels",       "encryptionSpec", "name",
    "state",       "createTime",    "startTime",    "endTime",        "updateTime",
    "error",       "webAccessUris", "satisfiesPzs", "satisfiesPzi"};
const std::vector<std::string> kTuningJobKeys = {"displayName",
                                                 "studySpec",
                                                 "maxTrialCount",
                                                 "parallelTrialCount",
                                                 "maxFailedTrialCount",
                                                 "trialJobSpec",
                                                 "labels",
                                                 "encryptionSpec",
                                                 "name",
                                                 "state",
                                                 "createTime",
                                                 "startTime",
                                                 "endTime",
                                                 "updateTime",
                                                 "error",
                                                 "trials",
                                                 "satisfiesPzs",
                                                 "satisfiesPzi"};
// Keys that Muster does not use.
const std::vector<std::string> kServiceKeys = {
    "reservedIpRanges",  "enableWebAccess",      "enableDashboardAccess",       "experiment",
    "experimentRun",     "persistentResourceId", "protectedArtifactLocationId", "models",
    "pscInterfaceConfig"};
const std::vector<std::string>& job_spec_keys() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> keys = {"workerPoolSpecs", "scheduling",  "serviceAccount",
                                     "network",         "tensorboard", "baseOutputDirectory"};
    keys.insert(keys.end(), kServiceKeys.begin(), kServiceKeys.end());
    return keys;
  }();
  return all;
}
const std::vector<std::string> kPoolKeys = {"machineSpec",      "replicaCount", "diskSpec",
                                            "nfsMounts",        "lustreMounts", "containerSpec",
                                            "pythonPackageSpec"};
const std::vector<std::string> kMachineKeys = {"machineType", "acceleratorType", "acceleratorCount",
                                               "tpuTopology", "reservationAffinity"};
const std::vector<std::string> kStudyKeys = {"metrics",
                                             "parameters",
                                             "algorithm",
                                             "medianAutomatedStoppingSpec",
                                             "decayCurveStoppingSpec",
                                             "convexAutomatedStoppingSpec",
                                             "observationNoise",
                                             "measurementSelectionType",
                                             "studyStoppingConfig"};
const std::vector<std::string> kParameterSpecKeys = {
    "parameterId",       "doubleValueSpec", "integerValueSpec",         "categoricalValueSpec",
    "discreteValueSpec", "scaleType",       "conditionalParameterSpecs"};

const std::vector<std::string>& keys_of(VertexKind kind) {
  if (kind == VertexKind::kJobSpec) return job_spec_keys();
  return kind == VertexKind::kTuningJob ? kTuningJobKeys : kCustomJobKeys;
}

class VertexReader {
 public:
  VertexReader(const ConfigFile& file, const ConfigValue& root, VertexKind kind)
      : root_(file, root, keys_of(kind)), kind_(kind) {}

  JobConfig read() {
    // Vertex AI calls the first task chief, always.
    job().chief_in_tf_config = true;
    if (kind_ == VertexKind::kJobSpec) {
      read_job_spec(root_);
      return std::move(config_);
    }
    job().name = root_.text("displayName").value_or("");
    job().labels = root_.pairs("labels");
    const std::string spec_key = kind_ == VertexKind::kTuningJob ? "trialJobSpec" : "jobSpec";
    if (root_.find(spec_key) == nullptr) {
      root_.note("studySpec", fmt::format("there is no {}", spec_key),
                 fmt::format("add {} with workerPoolSpecs", spec_key), {spec_key});
      return std::move(config_);
    }
    read_job_spec(root_.fields(spec_key, job_spec_keys()));
    if (kind_ == VertexKind::kTuningJob) read_study();
    return std::move(config_);
  }

 private:
  JobSpec& job() { return config_.job; }

  void read_job_spec(const ConfigFields& spec) {
    const auto pools = spec.list("workerPoolSpecs");
    if (pools.empty()) {
      spec.note("workerPoolSpecs", fmt::format("{} has no pools", spec.path("workerPoolSpecs")),
                "list at least the first pool: machineSpec, replicaCount: 1, containerSpec");
    }
    if (pools.size() > kVertexRoles.size()) {
      spec.file().note({.place = pools[kVertexRoles.size()]->place,
                        .message = fmt::format("there are {} pools", pools.size()),
                        .hint = "there are at most 4: the first task, workers, parameter servers, "
                                "evaluators",
                        .about = {}});
      return;
    }
    for (size_t i = 0; i < pools.size(); ++i)
      read_pool(ConfigFields(spec.file(), *pools[i], kPoolKeys), i);
    if (spec.has("scheduling")) {
      read_scheduling(spec.fields("scheduling", {"timeout", "restartJobOnWorkerRestart", "strategy",
                                                 "disableRetries", "maxWaitDuration"}));
    }
    job().service_account = spec.text("serviceAccount").value_or("");
    job().network = spec.text("network").value_or("");
    job().tensorboard = spec.text("tensorboard").value_or("");
    if (spec.has("baseOutputDirectory")) {
      const ConfigFields output = spec.fields("baseOutputDirectory", {"outputUriPrefix"});
      job().job_dir = output.text("outputUriPrefix").value_or("");
    }
    for (const std::string& of_the_service : kServiceKeys) {
      if (!spec.has(of_the_service)) continue;
      config_.notes.push_back(spec.path(of_the_service) + " is Vertex AI's own: it is not used");
    }
  }

  void read_pool(const ConfigFields& fields, size_t index) {
    Pool pool{.role = kVertexRoles[index]};
    const auto count = fields.whole("replicaCount", kMostTasks);
    const ConfigFields machine = fields.fields("machineSpec", kMachineKeys);
    const ConfigFields container =
        fields.fields("containerSpec", {"imageUri", "command", "args", "env"});
    const bool package = fields.has("pythonPackageSpec");
    const bool used = machine.has("machineType") || fields.has("containerSpec") || package;
    pool.count = static_cast<int>(count.value_or(used ? 1 : 0));
    if (index == 0 && pool.count != 1) {
      fields.note("replicaCount",
                  count ? fmt::format("{} is {}; the first pool has one replica",
                                      fields.path("replicaCount"), *count)
                        : std::string("the first pool is empty"),
                  count ? "write replicaCount: 1, and the others as the second pool"
                        : "the first pool holds the first task: machineSpec, "
                          "replicaCount: 1, containerSpec");
    }
    pool.machine_type = machine.text("machineType").value_or("");
    read_accelerator(machine, pool);
    if (pool.count > 0 && pool.machine_type.empty() && !machine.is_spoken_of("machineType")) {
      fields.note("machineSpec",
                  fmt::format("{} is missing, but the pool has {} {}",
                              fields.path("machineSpec") + ".machineType", pool.count,
                              pool.count == 1 ? "replica" : "replicas"),
                  "add machineSpec with machineType, such as n1-standard-8");
    }
    if (pool.count > 0 && fields.has("containerSpec") == package) {
      fields.note(package ? "pythonPackageSpec" : "replicaCount",
                  package ? "the pool has both containerSpec and pythonPackageSpec"
                          : "the pool has neither containerSpec nor pythonPackageSpec",
                  "write containerSpec with imageUri");
    }
    if (package) {
      config_.notes.push_back(fields.path("pythonPackageSpec") +
                              " is of a program in Python: the program on the command line runs "
                              "instead");
    }
    read_container(container, pool, fields.has("containerSpec"));
    if (fields.has("diskSpec")) {
      const ConfigFields disk = fields.fields("diskSpec", {"bootDiskType", "bootDiskSizeGb"});
      pool.disk_type = disk.text("bootDiskType").value_or("");
      pool.disk_gigabytes = static_cast<int>(disk.whole("bootDiskSizeGb").value_or(0));
    }
    for (const char* of_the_service : {"nfsMounts", "lustreMounts"}) {
      if (!fields.has(of_the_service)) continue;
      config_.notes.push_back(fields.path(of_the_service) + " is Vertex AI's own: it is not used");
    }
    // A pool of Google's own all-reduce servers is none of parameter servers.
    if (index == 2 && pool.image.find("reductionserver") != std::string::npos) {
      config_.notes.push_back(fields.path("containerSpec") +
                              " is a Reduction Server: Muster's workers reduce among themselves, "
                              "and the pool is left out");
      return;
    }
    if (pool.count > 0) job().pools.push_back(std::move(pool));
  }

  static void read_accelerator(const ConfigFields& machine, Pool& pool) {
    pool.accelerator.type = machine.text("acceleratorType").value_or("");
    // JSON made by the client libraries names absent fields.
    if (pool.accelerator.type == "ACCELERATOR_TYPE_UNSPECIFIED") pool.accelerator.type.clear();
    pool.accelerator.count = static_cast<int>(machine.whole("acceleratorCount", 1024).value_or(0));
    if (pool.accelerator.type.empty() == (pool.accelerator.count == 0)) return;
    if (machine.is_spoken_of("acceleratorType") || machine.is_spoken_of("acceleratorCount")) return;
    const bool typed = !pool.accelerator.type.empty();
    machine.note(typed ? "acceleratorType" : "acceleratorCount",
                 typed ? fmt::format("{} is {}, but acceleratorCount is 0 or missing",
                                     machine.path("acceleratorType"), pool.accelerator.type)
                       : fmt::format("{} is {}, and there is no acceleratorType",
                                     machine.path("acceleratorCount"), pool.accelerator.count),
                 "write both, or neither");
  }

  static void read_container(const ConfigFields& container, Pool& pool, bool there) {
    pool.image = container.text("imageUri").value_or("");
    pool.command = container.texts("command");
    pool.args = container.texts("args");
    for (const ConfigValue* item : container.list("env")) {
      const ConfigFields variable(container.file(), *item, {"name", "value"});
      const std::string name = variable.text("name").value_or("");
      const std::string value = variable.text("value").value_or("");
      if (name.empty()) {
        variable.note("name", fmt::format("{} has no name", item->path), "write name and value");
        continue;
      }
      const bool usable = std::ranges::all_of(
          name, [](unsigned char c) { return c > ' ' && c != '=' && c != 0x7f; });
      if (!usable) {
        variable.note(
            "name", fmt::format("'{}' cannot be the name of a variable", printable_beginning(name)),
            "names have no '=' and no blanks");
        continue;
      }
      pool.environment.emplace_back(name, value);
    }
    if (there && pool.image.empty()) {
      container.note("imageUri", fmt::format("{} is missing", container.path("imageUri")),
                     "name the image, such as europe-docker.pkg.dev/project/repository/name");
    }
  }

  void read_scheduling(const ConfigFields& fields) {
    Scheduling& scheduling = job().scheduling;
    scheduling.max_running_seconds = fields.seconds("timeout").value_or(0);
    scheduling.max_wait_seconds = fields.seconds("maxWaitDuration").value_or(0);
    scheduling.restart_on_worker_restart =
        fields.truth("restartJobOnWorkerRestart").value_or(false);
    if (fields.truth("disableRetries").value_or(false)) scheduling.restarts = 0;
    if (fields.has("strategy")) {
      config_.notes.push_back(fields.path("strategy") + " is Vertex AI's own: it is not used");
    }
  }

  void read_study() {
    const size_t before = root_.file().mistakes->size();
    HyperParameterSearch search;
    search.max_trials = count_of_trials(root_, "maxTrialCount");
    search.max_parallel_trials = count_of_trials(root_, "parallelTrialCount");
    search.max_failed_trials = static_cast<int>(root_.whole("maxFailedTrialCount").value_or(0));
    if (root_.find("studySpec") == nullptr) {
      root_.note("trialJobSpec", "there is no studySpec",
                 "add studySpec with metrics and parameters");
      return;
    }
    const ConfigFields study = root_.fields("studySpec", kStudyKeys);
    read_metric(study, search);
    using Algorithm = HyperParameterSearch::Algorithm;
    constexpr std::array kAlgorithms = {Algorithm::kDefault, Algorithm::kGrid, Algorithm::kRandom};
    search.algorithm = kAlgorithms[study
                                       .choice("algorithm", {"ALGORITHM_UNSPECIFIED", "GRID_SEARCH",
                                                             "RANDOM_SEARCH"})
                                       .value_or(0)];
    for (const char* stopping :
         {"medianAutomatedStoppingSpec", "decayCurveStoppingSpec", "convexAutomatedStoppingSpec"}) {
      search.early_stopping |= study.has(stopping);
    }
    for (const char* of_the_service :
         {"observationNoise", "measurementSelectionType", "studyStoppingConfig"}) {
      if (!study.has(of_the_service)) continue;
      config_.notes.push_back(study.path(of_the_service) + " is Vertex AI's own: it is not used");
    }
    std::vector<ConfigPlace> places;
    for (const ConfigValue* item : study.list("parameters")) {
      const size_t noted = root_.file().mistakes->size();
      HyperParameter parameter =
          read_parameter(ConfigFields(study.file(), *item, kParameterSpecKeys));
      if (root_.file().mistakes->size() != noted) continue;
      search.parameters.push_back(std::move(parameter));
      places.push_back(item->place);
    }
    check_search_at(search, root_, "studySpec", places, before);
    job().search = std::move(search);
  }

  static void read_metric(const ConfigFields& study, HyperParameterSearch& search) {
    const auto metrics = study.list("metrics");
    if (metrics.size() != 1) {
      study.note("metrics", fmt::format("{} has {} entries", study.path("metrics"), metrics.size()),
                 "name the one metric that is compared: metricId and goal");
      return;
    }
    const ConfigFields metric(study.file(), *metrics.front(), {"metricId", "goal", "safetyConfig"});
    const auto id = metric.text("metricId");
    const auto goal = metric.choice("goal", {"MAXIMIZE", "MINIMIZE"});
    for (const auto& [key, there] :
         {std::pair("metricId", id.has_value()), std::pair("goal", goal.has_value())}) {
      if (there) continue;
      metric.note(key, fmt::format("{} is missing", metric.path(key)),
                  "write metricId, the tag of the summary, and goal: MAXIMIZE or MINIMIZE");
    }
    if (!id || !goal) return;
    search.metric_tag = *id;
    search.maximize = *goal == 0;
  }

  static HyperParameter read_parameter(const ConfigFields& fields) {
    using Type = HyperParameter::Type;
    struct Kind {
      const char* key{};
      Type type;
    };
    constexpr std::array<Kind, 4> kKinds = {{{"doubleValueSpec", Type::kDouble},
                                             {"integerValueSpec", Type::kInteger},
                                             {"categoricalValueSpec", Type::kCategorical},
                                             {"discreteValueSpec", Type::kDiscrete}}};
    HyperParameter parameter;
    const auto name = fields.text("parameterId");
    if (!name) {
      fields.note("parameterId", fmt::format("{} is missing", fields.path("parameterId")),
                  "each parameter has a parameterId and a value spec");
      return parameter;
    }
    parameter.name = *name;
    int specs = 0;
    for (const Kind& kind : kKinds) {
      if (!fields.has(kind.key)) continue;
      ++specs;
      const ConfigFields spec =
          fields.fields(kind.key, {"minValue", "maxValue", "values", "defaultValue"});
      parameter.type = kind.type;
      if (kind.type == Type::kCategorical) {
        parameter.categories = spec.texts("values");
      } else if (kind.type == Type::kDiscrete) {
        parameter.values = spec.numbers("values");
      } else {
        const auto least = spec.number("minValue"), most = spec.number("maxValue");
        for (const auto& [key, there] :
             {std::pair("minValue", least.has_value()), std::pair("maxValue", most.has_value())}) {
          if (there) continue;
          spec.note(key, fmt::format("{} is missing", spec.path(key)),
                    "write minValue and maxValue");
        }
        parameter.min_value = least.value_or(0);
        parameter.max_value = most.value_or(0);
      }
    }
    if (specs != 1) {
      fields.note("parameterId", fmt::format("the parameter '{}' has {} value specs", *name, specs),
                  "give it one of doubleValueSpec, integerValueSpec, categoricalValueSpec, "
                  "discreteValueSpec");
    }
    if (fields.has("conditionalParameterSpecs")) {
      fields.note("conditionalParameterSpecs",
                  "parameters that depend on others cannot be searched here",
                  "list them with the others");
    }
    using Scale = HyperParameter::Scale;
    constexpr std::array kScales = {Scale::kNone, Scale::kLinear, Scale::kLog, Scale::kReverseLog};
    parameter.scale =
        kScales[fields
                    .choice("scaleType", {"SCALE_TYPE_UNSPECIFIED", "UNIT_LINEAR_SCALE",
                                          "UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE"})
                    .value_or(0)];
    return parameter;
  }

  const ConfigFields root_;
  const VertexKind kind_;
  JobConfig config_;
};

}  // namespace

JobConfig read_vertex(const ConfigFile& file, const ConfigValue& root, VertexKind kind) {
  return VertexReader(file, root, kind).read();
}

}  // namespace muster::inline v0_1::jobs::internal
