#include "muster/jobs/job_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/missing_file.h"
#include "muster/base/strings.h"
#include "muster/files/file_systems.h"
#include "muster/jobs/config_file.h"
#include "muster/jobs/internal/config_formats.h"
#include "muster/jobs/search_space.h"

namespace muster::inline v0_1::jobs {
namespace {

const ConfigMember* member_of(const ConfigValue& map, const std::vector<std::string>& keys) {
  for (const ConfigMember& member : map.members) {
    if (std::ranges::find(keys, member.key) != keys.end()) return &member;
  }
  return nullptr;
}

constexpr const char* kWhatWeRead =
    "a job's configuration has trainingInput (AI Platform), or workerPoolSpecs, jobSpec or "
    "trialJobSpec (Vertex AI)";

// Throws for a file that is known to be something else, naming it.
void refuse_other_kinds(const ConfigFile& file, const ConfigValue& root) {
  const auto refuse = [&](const ConfigMember& member, const std::string& what,
                          const std::string& instead) {
    throw file.error(member.place, "this is " + what, fmt::format("{}; {}", kWhatWeRead, instead));
  };
  if (member_of(root, {"apiVersion"}) != nullptr) {
    const ConfigMember* kind = member_of(root, {"kind"});
    if (kind != nullptr) {
      refuse(*kind, "a Kubernetes manifest, kind " + kind->value.text,
             "kubectl apply -f " + file.name +
                 " starts it as it is, and muster submit --to "
                 "kubernetes makes manifests of a configuration");
    }
  }
  if (const ConfigMember* services = member_of(root, {"services"})) {
    refuse(*services, "a Docker Compose file", "write a pool of workers instead of the services");
  }
  if (const ConfigMember* cluster = member_of(root, {"cluster", "sparseCluster"})) {
    refuse(*cluster, "a TF_CONFIG",
           "it is for the environment of one task, which then starts without muster submit");
  }
  if (const ConfigMember* spec = member_of(root, {"pipelineSpec", "runtimeConfig"})) {
    refuse(*spec, "a pipeline of Vertex AI", "submit its training step alone");
  }
  if (const ConfigMember* input = member_of(root, {"predictionInput", "deploymentUri"})) {
    refuse(*input, "a configuration for predictions", "muster serve answers with a model");
  }
}

// By the keys that the kinds of configurations have.
JobConfig read_known_kind(const ConfigFile& file, const ConfigValue& root) {
  const auto has = [&](const std::vector<std::string>& keys) {
    return member_of(root, keys) != nullptr;
  };
  using internal::VertexKind;
  if (has({"studySpec", "study_spec", "trialJobSpec", "trial_job_spec"}))
    return internal::read_vertex(file, root, VertexKind::kTuningJob);
  if (has({"jobSpec", "job_spec"}))
    return internal::read_vertex(file, root, VertexKind::kCustomJob);
  if (has({"workerPoolSpecs", "worker_pool_specs"}))
    return internal::read_vertex(file, root, VertexKind::kJobSpec);
  if (has({"trainingInput", "training_input"}))
    return internal::read_ai_platform(file, root, false);
  // The body alone has one of these; in a file with none of them nothing would be known.
  if (has({"scaleTier", "scale_tier", "masterType", "master_type", "masterConfig", "master_config",
           "workerCount", "worker_count", "hyperparameters", "packageUris", "package_uris",
           "pythonModule", "python_module", "jobDir", "job_dir"})) {
    return internal::read_ai_platform(file, root, true);
  }
  // A misspelled trainingInput is an unknown key of a job.
  return internal::read_ai_platform(file, root, false);
}

}  // namespace

namespace internal {

void check_search_at(const HyperParameterSearch& search, const ConfigFields& fields,
                     const std::string& key, const std::vector<ConfigPlace>& places,
                     size_t before) {
  const ConfigFile& file = fields.file();
  for (size_t i = 0; i < search.parameters.size(); ++i) {
    HyperParameterSearch one = search;
    one.parameters = {search.parameters[i]};
    one.algorithm = HyperParameterSearch::Algorithm::kDefault;
    try {
      check_search(one);
    } catch (const Error& error) {
      file.note(
          {.place = places[i], .message = error.message(), .hint = error.hint(), .about = {}});
    }
  }
  if (file.mistakes->size() != before) return;
  try {
    check_search(search);
  } catch (const Error& error) {
    fields.note(key, error.message(), error.hint());
  }
}

int count_of_trials(const ConfigFields& fields, const std::string& key) {
  const auto count = parse_int(fields.text(key).value_or("1"));
  if (count && *count < 1) {
    fields.note(key, fmt::format("{} is {}", fields.path(key), *count),
                fmt::format("write 1 or more; without {} it is 1", key));
    return 1;
  }
  return static_cast<int>(fields.whole(key).value_or(1));
}

}  // namespace internal

JobConfig read_job_config(const std::string& text, const std::string& name) {
  if (text.starts_with("#!")) {
    throw invalid_argument(fmt::format("{}:1:1: this is a script: {}", name,
                                       trim(std::string_view(text).substr(0, text.find('\n')))),
                           fmt::format("{}; a batch script is submitted with sbatch", kWhatWeRead));
  }
  const ConfigFile file = parse_config_file(text, name);
  if (file.documents.empty()) {
    throw invalid_argument(fmt::format("{} is empty", name), kWhatWeRead);
  }
  const ConfigValue& root = file.documents.front();
  if (root.kind != ConfigValue::Kind::kMap) {
    throw file.error(root.place, fmt::format("the whole file is {}", root.shown()), kWhatWeRead);
  }
  refuse_other_kinds(file, root);
  if (file.documents.size() > 1) {
    throw file.error(file.documents[1].place, "a second document begins here",
                     "give each job a separate file");
  }
  JobConfig config = read_known_kind(file, root);
  file.throw_noted();
  return config;
}

JobConfig read_job_config_file(const std::string& path) {
  FileSystem& files = file_systems();
  const auto reader = open_named_file(files, path);
  if (!reader.ok()) throw reader.error();
  return read_job_config(files.read_file(path).value(), path);
}

}  // namespace muster::inline v0_1::jobs
