#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/jobs/internal/answer.h"
#include "muster/jobs/internal/private_file.h"
#include "muster/jobs/internal/tool.h"
#include "muster/jobs/internal/vertex_api.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

using nlohmann::json;

Error gcloud_refused(const std::string& what, const launch::CompletedProcess& ran) {
  const std::string why = complaint(ran);
  const auto says = [&](std::string_view text) { return why.find(text) != std::string::npos; };
  if (says("property [project]")) {
    return invalid_argument(
        what + ": no project is named, and gcloud has no current project",
        "add --project=PROJECT to the command, or name it for all: gcloud config set project "
        "PROJECT, or export CLOUDSDK_CORE_PROJECT=PROJECT");
  }
  const std::string message = fmt::format("{}: {}", what, why);
  if (says("NOT_FOUND") || says("was not found")) {
    return not_found(message, "name the region and the project that the job was submitted to");
  }
  if (says("gcloud auth login") || says("UNAUTHENTICATED") || says("active account") ||
      says("invalid authentication")) {
    return invalid_argument(message, "log in with `gcloud auth login`");
  }
  if (says("PERMISSION_DENIED")) {
    return invalid_argument(message,
                            "ask for the role roles/aiplatform.user in the project, and enable "
                            "aiplatform.googleapis.com in it");
  }
  if (says("UNAVAILABLE") || says("problem refreshing") || says("Connection refused") ||
      says("Unable to find the server") || says("RESOURCE_EXHAUSTED") ||
      says("network is unreachable") || says("DEADLINE_EXCEEDED") || says("timed out") ||
      says("Connection reset") || says("Connection aborted") || says("INTERNAL")) {
    return Error(ErrorKind::kUnavailable, message, "try again");
  }
  return invalid_argument(message, "the same command with --dry-run prints what it was given");
}

// "custom-jobs" or "hp-tuning-jobs", by the name of a resource.
std::string group_of(const std::string& name) {
  return name.find("/hyperparameterTuningJobs/") != std::string::npos ? "hp-tuning-jobs"
                                                                      : "custom-jobs";
}

void add_project(const VertexPlace& place, std::vector<std::string>& argv) {
  if (!place.project.empty()) argv.push_back("--project=" + place.project);
}

class GcloudVertexApi final : public VertexApi {
 public:
  explicit GcloudVertexApi(std::string gcloud) : gcloud_(std::move(gcloud)) {}

  std::string create(const VertexPlace& place, const VertexJob& job,
                     const std::string& folder) override {
    std::vector<std::string> argv = gcloud_create_command(place, job);
    const PrivateFile file(join_path(folder, "job.json"), config_of(job).dump());
    for (std::string& word : argv) {
      if (word == "--config=job.json") word = "--config=" + file.path();
    }
    const std::string name = job.resource.at("displayName");
    return call(argv, fmt::format("cannot create the job '{}' on Vertex AI", name)).text("/name");
  }

  std::vector<std::string> find(const VertexPlace& place, bool tuning, const std::string& label,
                                const std::string& value) override {
    std::vector<std::string> argv = {"gcloud",
                                     "ai",
                                     tuning ? "hp-tuning-jobs" : "custom-jobs",
                                     "list",
                                     fmt::format("--filter=labels.{}={}", label, value),
                                     "--region=" + place.region};
    add_project(place, argv);
    return names_in(call(argv, "cannot ask Vertex AI for its jobs").list(""));
  }

  json get(const VertexPlace& place, const std::string& name) override {
    const Answer found = call(about("describe", place, name),
                              fmt::format("cannot ask Vertex AI for the job {}", name));
    (void)found.text("/state");
    return found.json();
  }

  void cancel(const VertexPlace& place, const std::string& name) override {
    run(about("cancel", place, name), fmt::format("cannot cancel the job {}", name));
  }

  std::vector<json> log_entries(const VertexPlace& place, const std::string& filter,
                                int most) override {
    std::vector<std::string> argv = {"gcloud", "logging",     "read",
                                     filter,   "--order=asc", fmt::format("--limit={}", most)};
    add_project(place, argv);
    return call(argv, "cannot read the log of the job").list("").get<std::vector<json>>();
  }

  // The argument of --config: the body of a CustomJobSpec, or of a tuning job without the parts
  // that flags set.
  static nlohmann::ordered_json config_of(const VertexJob& job) {
    if (!job.tuning) return job.resource.at("jobSpec");
    return {{"studySpec", job.resource.at("studySpec")},
            {"trialJobSpec", job.resource.at("trialJobSpec")}};
  }

 private:
  std::vector<std::string> about(const char* verb, const VertexPlace& place,
                                 const std::string& name) const {
    std::vector<std::string> argv = {"gcloud", "ai", group_of(name),
                                     verb,     name, "--region=" + place.region};
    add_project(place, argv);
    return argv;
  }

  launch::CompletedProcess run(std::vector<std::string> argv, const std::string& what) const {
    argv[0] = gcloud_;
    argv.push_back("--format=json");
    argv.push_back("--quiet");  // it must not ask
    launch::CompletedProcess ran =
        run_tool({.argv = argv,
                  .what = what,
                  .install = "install the Google Cloud CLI, and log in with `gcloud auth login`",
                  .asks = "Vertex AI",
                  .deadline = std::chrono::seconds(120)});
    if (!ran.status.ok()) throw gcloud_refused(what, ran);
    return ran;
  }

  Answer call(const std::vector<std::string>& argv, const std::string& what) const {
    return {what, join(argv, " "), run(argv, what).out};
  }

  std::string gcloud_;
};

}  // namespace

std::vector<std::string> gcloud_create_command(const VertexPlace& place, const VertexJob& job) {
  std::vector<std::string> argv = {
      "gcloud",
      "ai",
      job.tuning ? "hp-tuning-jobs" : "custom-jobs",
      "create",
      "--region=" + place.region,
      "--display-name=" + job.resource.at("displayName").get<std::string>(),
      "--config=job.json"};
  add_project(place, argv);
  if (job.tuning) {
    argv.push_back("--max-trial-count=" + job.resource.at("maxTrialCount").dump());
    argv.push_back("--parallel-trial-count=" + job.resource.at("parallelTrialCount").dump());
  }
  if (job.resource.contains("labels")) {
    std::vector<std::string> labels;
    for (const auto& [key, value] : job.resource.at("labels").items()) {
      labels.push_back(key + "=" + value.get<std::string>());
    }
    argv.push_back("--labels=" + join(labels, ","));
  }
  return argv;
}

std::unique_ptr<VertexApi> gcloud_vertex_api(const std::string& gcloud) {
  return std::make_unique<GcloudVertexApi>(gcloud);
}

}  // namespace muster::inline v0_1::jobs::internal
