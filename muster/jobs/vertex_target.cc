#include "muster/jobs/vertex_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/secret.h"
#include "muster/base/strings.h"
#include "muster/files/regular_expression.h"
#include "muster/jobs/internal/answer.h"
#include "muster/jobs/internal/ask_patiently.h"
#include "muster/jobs/internal/vertex_api.h"
#include "muster/launch/run.h"

namespace muster::inline v0_1::jobs {
namespace {

using nlohmann::json;

constexpr const char* kRegion = "region";
constexpr const char* kProject = "project";
constexpr const char* kTuning = "tuning";  // of a HyperparameterTuningJob
constexpr const char* kSubmissionLabel = "muster-submission";
constexpr int kEntriesAtOnce = 1000;
// Cloud Logging allows 60 reads a minute.
constexpr auto kLookForEntries = std::chrono::seconds(5);

std::string token_for(const JobSpec& job) {
  return internal::needs_token(job) ? random_secret() : "";
}

VertexPlace place_of(const JobRecord& record) {
  const auto detail = [&](const char* key) {
    const auto it = record.details.find(key);
    return it == record.details.end() ? std::string() : it->second;
  };
  return {.region = detail(kRegion), .project = detail(kProject)};
}

JobState state_of(const std::string& state) {
  static const std::map<std::string, JobState> kStates = {
      {"JOB_STATE_QUEUED", JobState::kQueued},       {"JOB_STATE_PENDING", JobState::kQueued},
      {"JOB_STATE_RUNNING", JobState::kRunning},     {"JOB_STATE_UPDATING", JobState::kRunning},
      {"JOB_STATE_SUCCEEDED", JobState::kSucceeded}, {"JOB_STATE_FAILED", JobState::kFailed},
      {"JOB_STATE_EXPIRED", JobState::kFailed},      {"JOB_STATE_PAUSED", JobState::kQueued},
      {"JOB_STATE_CANCELLING", JobState::kEnding},   {"JOB_STATE_CANCELLED", JobState::kCancelled}};
  const auto it = kStates.find(state);
  return it == kStates.end() ? JobState::kUnknown : it->second;
}

// "The replica workerpool1-0 exited with a non-zero status of 2. ..."
std::optional<int> exit_code_in(const std::string& message) {
  constexpr std::string_view kBefore = "non-zero status of ";
  const size_t at = message.find(kBefore);
  if (at == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(message).substr(at + kBefore.size());
  const auto code = parse_int(rest.substr(0, rest.find_first_not_of("0123456789")));
  return code ? std::optional(static_cast<int>(*code)) : std::nullopt;
}

constexpr std::array kRoles = {"chief", "worker", "ps", "evaluator"};

// "worker-2" for "workerpool1-2", and back; other texts stay.
std::string task_name(const std::string& place) {
  for (size_t i = 0; i < kRoles.size(); ++i) {
    const std::string pool = fmt::format("workerpool{}-", i);
    if (place.starts_with(pool)) return std::string(kRoles[i]) + "-" + place.substr(pool.size());
  }
  return place;
}
std::string place_name(const std::string& task) {
  for (size_t i = 0; i < kRoles.size(); ++i) {
    const std::string role = std::string(kRoles[i]) + "-";
    if (task.starts_with(role)) return fmt::format("workerpool{}-{}", i, task.substr(role.size()));
  }
  return task;
}

// Bytes that are not text become question marks.
std::string as_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The text of a log entry; entries have a text, or fields.
std::string text_of(const json& entry) {
  for (const char* place : {"/textPayload", "/jsonPayload/message"}) {
    if (std::string text = internal::text_or_nothing(entry, place); !text.empty()) return text;
  }
  return entry.contains("/jsonPayload"_json_pointer)
             ? as_text(entry.at("/jsonPayload"_json_pointer))
             : "";
}

// Whether the job may exist although no answer says so.
bool vertex_may_have_it(const Error& error) {
  const bool may_pass =
      error.kind() == ErrorKind::kTimeout || error.kind() == ErrorKind::kUnavailable;
  // A request that never reached the service is a clear failure, and so is an exhausted quota.
  const bool sent = std::ranges::none_of(
      std::array{"refused", "find the server", "problem refreshing", "unreachable",
                 "RESOURCE_EXHAUSTED"},
      [&](const char* text) { return error.message().find(text) != std::string::npos; });
  return may_pass && sent;
}

constexpr const char* kNoRegion = "the job names no region, which Vertex AI needs";
constexpr const char* kNameRegion =
    "add --region=us-central1 to the command, or region: us-central1 to the trainingInput of its "
    "configuration";
// In a command that is only described; no region has such a name.
constexpr const char* kSomeRegion = "REGION";

// Both become parts of the addresses to which credentials are sent.
void check_place(const VertexPlace& place) {
  static const RegularExpression kRegionName("[a-z][a-z0-9-]{0,62}");
  static const RegularExpression kProjectName("([a-z0-9.-]+:)?[a-z0-9][a-z0-9-]{0,62}");
  if (!kRegionName.full_match(place.region)) {
    throw invalid_argument(fmt::format("the region is '{}'", printable_beginning(place.region)),
                           "regions are small letters, digits and '-', such as us-central1");
  }
  if (!place.project.empty() && !kProjectName.full_match(place.project)) {
    throw invalid_argument(
        fmt::format("the project is '{}'", printable_beginning(place.project)),
        "name it by its id, which is small letters, digits and '-', or by its number");
  }
}

std::string job_number(const std::string& name) { return name.substr(name.rfind('/') + 1); }

}  // namespace

VertexTarget::VertexTarget(VertexTargetOptions options)
    : VertexTarget(std::move(options), internal::vertex_api(Environment::process())) {}
VertexTarget::VertexTarget(VertexTargetOptions options, std::unique_ptr<internal::VertexApi> api)
    : options_(std::move(options)), api_(std::move(api)) {}
VertexTarget::~VertexTarget() = default;

VertexPlace VertexTarget::place_of(const JobSpec& job) const {
  VertexPlace place = options_.place;
  if (place.region.empty()) place.region = job.region;
  if (place.project.empty()) place.project = job.project;
  if (place.project.empty()) place.project = api_->own_project();
  if (place.region.empty()) {
    if (options_.only_described) return {.region = kSomeRegion, .project = place.project};
    throw invalid_argument(kNoRegion, kNameRegion);
  }
  check_place(place);
  return place;
}

std::vector<std::string> VertexTarget::check(const JobSpec& job) const {
  const VertexPlace place = place_of(job);
  std::vector<std::string> notes = internal::vertex_job(job, "job", options_.job).notes;
  if (place.region == kSomeRegion) {
    notes.push_back(fmt::format("this job cannot be submitted: {}; {}", kNoRegion, kNameRegion));
  }
  if (internal::needs_token(job)) {
    notes.emplace_back(
        "everyone who may read the project's jobs can read this job's token, a variable of its "
        "pools; to avoid that, use a token file, certificates or your own network "
        "(docs/vertex.md)");
  }
  return notes;
}

std::string VertexTarget::describe(const JobSpec& job, const JobRecord& record) const {
  const internal::VertexJob made = internal::vertex_job(
      job, record.name, options_.job, options_.show_secrets ? token_for(job) : "");
  std::vector<std::string> words;
  for (const std::string& word : internal::gcloud_create_command(place_of(job), made)) {
    words.push_back(launch::shell_quoted(word));
  }
  std::string text = fmt::format("# {}\n# where job.json holds {}:\n", join(words, " "),
                                 made.tuning ? "studySpec and trialJobSpec" : "jobSpec");
  if (internal::needs_token(job) && !options_.show_secrets) {
    text +=
        "# (MUSTER_JOB_TOKEN, one more variable of every pool, is made when the job is "
        "submitted; --show-secrets shows one)\n";
  }
  return text + made.resource.dump(2) + "\n";
}

void VertexTarget::locate(const JobSpec& job, JobRecord& record) const {
  const VertexPlace place = place_of(job);
  record.details[kRegion] = place.region;
  if (!place.project.empty()) record.details[kProject] = place.project;
  if (job.search) record.details[kTuning] = "yes";
}

void VertexTarget::submit(const JobSpec& job, JobRecord& record) {
  const VertexPlace place = place_of(job);
  locate(job, record);
  JobSpec marked = job;
  if (!record.submission.empty()) marked.labels.emplace_back(kSubmissionLabel, record.submission);
  const internal::VertexJob made =
      internal::vertex_job(marked, record.name, options_.job, token_for(job));
  try {
    record.id = api_->create(place, made, record.folder);
  } catch (const Error& error) {
    if (!vertex_may_have_it(error)) throw;
    try {
      if (recognise(record)) return;
    } catch (const Error&) {
      // Then it is not known.
    }
    throw UnclearSubmission(error, record);
  }
}

bool VertexTarget::recognise(JobRecord& record) {
  if (record.submission.empty()) return false;
  const std::vector<std::string> found =
      api_->find(jobs::place_of(record), record.details.contains(kTuning), kSubmissionLabel,
                 record.submission);
  if (found.empty()) return false;
  record.id = found.front();
  return true;
}

JobStatus VertexTarget::status(const JobRecord& record) {
  JobStatus status;
  json found;
  try {
    found = api_->get(jobs::place_of(record), record.id);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    status.detail = "Vertex AI does not know it any more";
    status.forgotten = true;
    return status;
  }
  const std::string state = internal::text_or_nothing(found, "/state");
  status.state = state_of(state);
  status.detail = internal::text_or_nothing(found, "/error/message");
  if (status.state == JobState::kUnknown && status.detail.empty())
    status.detail = fmt::format("Vertex AI says '{}'", printable_beginning(state));
  if (status.state == JobState::kSucceeded) status.exit_code = 0;
  if (status.state == JobState::kFailed) status.exit_code = exit_code_in(status.detail);
  if (status.detail.empty() && (state == "JOB_STATE_PAUSED" || state == "JOB_STATE_EXPIRED")) {
    status.detail = "Vertex AI says " + state;
  }
  return status;
}

std::string VertexTarget::where(const JobRecord& record) const {
  return jobs::place_of(record).region;
}

void VertexTarget::logs(const JobRecord& record, const LogOptions& options, const LogSink& sink) {
  const VertexPlace place = jobs::place_of(record);
  std::string filter = fmt::format("resource.type=\"ml_job\" AND resource.labels.job_id=\"{}\"",
                                   job_number(record.id));
  if (!options.task.empty()) {
    filter += fmt::format(" AND resource.labels.task_name=\"{}\"", place_name(options.task));
  }
  std::string since;
  std::set<std::string> seen;  // entries at the time `since`
  std::vector<std::string> first;
  for (bool last = false, begun = false; !last; begun = true) {
    const auto now = internal::ask_patiently(options, [&] { return status(record).state; });
    if (!now) return;
    last = !options.follow || is_final(*now);
    for (bool more = true; more;) {
      const auto answer = internal::ask_patiently(options, [&] {
        return api_->log_entries(
            place, since.empty() ? filter : filter + " AND timestamp>=\"" + since + "\"",
            kEntriesAtOnce);
      });
      if (!answer) return;
      const std::vector<json>& entries = *answer;
      bool news = false;
      for (const json& entry : entries) {
        const std::string time = internal::text_or_nothing(entry, "/timestamp");
        std::string id = internal::text_or_nothing(entry, "/insertId");
        if (id.empty()) id = as_text(entry);
        if (time != since) {
          since = time;
          seen.clear();
        }
        if (!seen.insert(id).second) continue;
        news = true;
        std::string task = internal::text_or_nothing(entry, "/resource/labels/task_name");
        if (task.empty()) task = "service";
        const std::string line = (options.task.empty() ? "[" + task_name(task) + "] " : "") +
                                 std::string(trim(text_of(entry)));
        if (begun || !options.tail) {
          sink(line);
        } else {
          first.push_back(line);
        }
      }
      more = news && entries.size() == kEntriesAtOnce && !options.interrupted();
    }
    if (!begun && options.tail) {
      const size_t wanted = std::min(first.size(), static_cast<size_t>(*options.tail));
      for (size_t i = first.size() - wanted; i < first.size(); ++i) sink(first[i]);
    }
    const auto end = std::chrono::steady_clock::now() + kLookForEntries;
    while (!last && std::chrono::steady_clock::now() < end) {
      if (options.interrupted()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

void VertexTarget::cancel(const JobRecord& record) {
  if (is_final(status(record).state)) return;
  api_->cancel(jobs::place_of(record), record.id);
}

}  // namespace muster::inline v0_1::jobs
