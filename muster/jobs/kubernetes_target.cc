#include "muster/jobs/kubernetes_target.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/secret.h"
#include "muster/base/strings.h"
#include "muster/jobs/internal/answer.h"
#include "muster/jobs/internal/ask_patiently.h"
#include "muster/jobs/internal/private_file.h"
#include "muster/jobs/internal/status_json.h"
#include "muster/jobs/internal/tool.h"
#include "muster/jobs/internal/yaml_text.h"
#include "muster/jobs/kubernetes_status.h"
#include "muster/jobs/submit.h"

namespace muster::inline v0_1::jobs {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNamespace = "namespace";
constexpr const char* kContext = "context";
constexpr const char* kKind = "kind";
constexpr const char* kRole = "role";  // of the Job that owns all else
constexpr const char* kLast = "last";  // the last document to be created, "service/leaf"; none:
                                       // nothing else
constexpr const char* kSubmissionMark = "muster/submission";  // an annotation
constexpr const char* kSubmissionPointer = "/metadata/annotations/muster~1submission";
// The file in the record's folder that says that the job was cancelled: the cluster forgets it.
constexpr const char* kCancelledMark = "cancelled";
constexpr const char* kTakeAnotherName =
    "take another name with --name, or cancel the job that has it";
constexpr int kCertificateDays = 365;  // a job may wait for its nodes for long
constexpr auto kLookForPods = std::chrono::seconds(2);

std::string resources_of(KubernetesKind kind) {
  switch (kind) {
    case KubernetesKind::kTfJob:
      return "tfjobs.kubeflow.org";
    case KubernetesKind::kPyTorchJob:
      return "pytorchjobs.kubeflow.org";
    case KubernetesKind::kJob:
      break;
  }
  return "jobs.batch";
}

JobSecrets make_secrets(const std::string& name, bool tls) {
  JobSecrets secrets{.token = random_secret()};
  if (tls) secrets.certificates = launch::make_certificates({name}, kCertificateDays);
  return secrets;
}

std::string selector(const std::string& name) {
  return "app.kubernetes.io/managed-by=muster,app.kubernetes.io/instance=" + name;
}

// The reason for which the cluster refused, one of the words of its API: kubectl, which has no
// other form for errors, shows it as "Error from server (Forbidden): ...". "" if it shows none,
// because it has no answer of the cluster.
std::string reason_in(const launch::CompletedProcess& ran) {
  constexpr std::string_view kBefore = "server (";
  const size_t at = ran.err.find(kBefore);
  if (at == std::string::npos) return "";
  const size_t begin = at + kBefore.size();
  return ran.err.substr(begin, ran.err.find(')', begin) - begin);
}

// Turns a complaint of kubectl into an error that says what to do.
Error kubectl_refused(const std::string& what, const launch::CompletedProcess& ran) {
  std::string why = internal::complaint(ran);
  // kubectl gives this advice if it cannot ask the cluster for its fields: it does not help.
  why = why.substr(0, why.find("; if you choose to ignore these errors"));
  const std::string message = fmt::format("{}: {}", what, why);
  const std::string reason = reason_in(ran);
  if (reason == "AlreadyExists") return invalid_argument(message, kTakeAnotherName);
  if (reason == "Forbidden" || reason == "Unauthorized") {
    return invalid_argument(message,
                            "ask for the right to create jobs, services and secrets in the "
                            "namespace, or name another with --namespace");
  }
  static const std::set<std::string> kMayPass = {
      "", "InternalError", "ServerTimeout", "ServiceUnavailable", "Timeout", "TooManyRequests"};
  if (kMayPass.contains(reason)) {
    return Error(ErrorKind::kUnavailable, message,
                 "does `kubectl get pods` work? it asks the same cluster; --context names another "
                 "of its configuration");
  }
  return invalid_argument(message,
                          "`muster submit --to kubernetes --dry-run` prints the documents");
}

// Runs kubectl to its end.
launch::CompletedProcess run_to_end(const std::string& what,
                                    const std::vector<std::string>& words) {
  return internal::run_tool({.argv = words,
                             .what = what,
                             .install = "install kubectl, and give it access to the cluster",
                             .asks = "Kubernetes"});
}

// The same; throws kubectl's complaint.
launch::CompletedProcess run_kubectl(const std::string& what,
                                     const std::vector<std::string>& words) {
  launch::CompletedProcess ran = run_to_end(what, words);
  if (!ran.status.ok()) throw kubectl_refused(what, ran);
  return ran;
}

// The same for a question that is answered in JSON.
internal::Answer ask(const std::string& what, const std::vector<std::string>& words) {
  return {what, join(words, " "), run_kubectl(what, words).out};
}

std::string create_what(const JobRecord& record) {
  return fmt::format("cannot create the job '{}' in Kubernetes", record.name);
}

// Whether a document belongs to this submission: the name alone may be a foreign job's.
bool is_own(const internal::Answer& found, const JobRecord& record) {
  return !record.submission.empty() &&
         internal::text_or_nothing(found.json(), kSubmissionPointer) == record.submission;
}

// The text that is recorded when a job is cancelled: nothing, or how it had ended before, if only
// some tasks were left to end.
std::string mark_of(JobStatus status) {
  if (!is_final(status.state)) return "\n";
  for (TaskStatus& task : status.tasks) {
    if (!is_final(task.state)) task.state = JobState::kCancelled;
  }
  return internal::to_json(status).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<JobStatus> end_of(const std::string& mark) {
  try {
    return internal::status_from_json(nlohmann::json::parse(mark));
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

// The name of the document that all others belong to.
std::string leading_name(const JobRecord& record) {
  const std::string name = kubernetes_name(record.name);
  const auto role = record.details.find(kRole);
  return role == record.details.end() ? name : name + "-" + role->second;
}

// Follows the logs of pods, each by a process of its own, until all have ended. Lines of several
// pods reach the sink one at a time.
class LogFollower {
 public:
  LogFollower(const LogSink& sink, const std::function<bool()>& interrupted)
      : sink_(sink), interrupted_(interrupted) {}
  ~LogFollower() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  // Begins with a pod, unless it was begun with before.
  void follow(const std::string& pod, std::vector<std::string> argv, const std::string& prefix) {
    if (!pods_.insert(pod).second) return;
    ++running_;
    threads_.emplace_back([this, argv = std::move(argv), prefix] {
      try {
        launch::run_by_lines(
            argv,
            [&](std::string_view line) {
              const std::scoped_lock lock(mutex_);
              sink_(prefix + std::string(line));
            },
            [this] { return stop_.load(); });
      } catch (const Error&) {
        // kubectl could be started a moment ago: the next look at the job reports the fault.
      }
      const std::scoped_lock lock(mutex_);
      --running_;
      changed_.notify_all();
    });
  }

  // Waits for this time, for the end of all, or for an interruption.
  void wait(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    std::unique_lock lock(mutex_);
    while (running_ > 0 && !interrupted_() && std::chrono::steady_clock::now() < end) {
      changed_.wait_for(lock, std::chrono::milliseconds(100));
    }
  }

  bool idle() {
    const std::scoped_lock lock(mutex_);
    return running_ == 0;
  }

 private:
  const LogSink& sink_;
  const std::function<bool()>& interrupted_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;
  std::set<std::string> pods_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::vector<std::string> KubernetesTarget::check(const JobSpec& job) const {
  return kubernetes_manifests(job, "job", options_.documents, options_.tls).notes;
}

std::string KubernetesTarget::describe(const JobSpec& job, const JobRecord& record) const {
  const KubernetesManifests manifests =
      kubernetes_manifests(job, record.name, options_.documents, options_.tls);
  std::string text = to_yaml(manifests);
  if (job.task_count() < 2) return text;
  if (options_.show_secrets) {
    return text + "---\n" +
           internal::to_yaml(kubernetes_secret(manifests, options_.documents,
                                               make_secrets(manifests.name, options_.tls)));
  }
  return text +
         "# The Secret with the job's token is made when the job is submitted; --show-secrets "
         "shows one.\n";
}

std::vector<std::string> KubernetesTarget::kubectl(const JobRecord& record,
                                                   std::vector<std::string> words) const {
  const auto detail = [&](const char* key, const std::string& otherwise) {
    const auto it = record.details.find(key);
    return it == record.details.end() ? otherwise : it->second;
  };
  std::vector<std::string> argv = {options_.kubectl};
  const std::string context = detail(kContext, options_.context);
  const std::string name_space = detail(kNamespace, options_.documents.name_space);
  if (!context.empty()) argv.push_back("--context=" + context);
  if (!name_space.empty()) argv.push_back("--namespace=" + name_space);
  argv.insert(argv.end(), words.begin(), words.end());
  return argv;
}

std::string KubernetesTarget::create(const JobRecord& record, const std::vector<Json>& documents,
                                     const std::string& output) const {
  std::string text;
  for (const Json& document : documents) text += document.dump() + "\n";
  const internal::PrivateFile file(join_path(record.folder, "create.json"), text);
  return run_kubectl(create_what(record),
                     kubectl(record, {"create", "--filename=" + file.path(), "--output=" + output}))
      .out;
}

std::optional<internal::Answer> KubernetesTarget::find_leading(const JobRecord& record) const {
  const std::string what = fmt::format("cannot ask Kubernetes for the job '{}'", record.name);
  const std::vector<std::string> words =
      kubectl(record, {"get", record.details.at(kKind), leading_name(record), "--ignore-not-found",
                       "--output=json"});
  const launch::CompletedProcess ran = run_kubectl(what, words);
  if (trim(ran.out).empty()) return std::nullopt;
  return internal::Answer(what, join(words, " "), ran.out);
}

std::optional<internal::Answer> KubernetesTarget::find_own(const JobRecord& record) const {
  if (record.submission.empty()) return std::nullopt;
  auto found = find_leading(record);
  return found && is_own(*found, record) ? std::move(found) : std::nullopt;
}

void KubernetesTarget::check_kind(const JobRecord& record) const {
  if (options_.documents.kind == KubernetesKind::kJob) return;
  const std::string& kind = record.details.at(kKind);
  const launch::CompletedProcess ran =
      run_to_end("cannot ask Kubernetes for its kinds",
                 kubectl(record, {"api-resources", "--api-group=kubeflow.org", "--output=name"}));
  // Without an answer it stays open: another group of the cluster may be out of reach.
  if (!ran.status.ok() || std::ranges::count(split(ran.out, '\n'), kind) > 0) return;
  throw invalid_argument(fmt::format("{}: the cluster has no {}", create_what(record), kind),
                         "install Kubeflow's training operator in the cluster, or use --kind=job, "
                         "which needs nothing");
}

bool KubernetesTarget::is_whole(const JobRecord& record) const {
  const auto last = record.details.find(kLast);
  if (last == record.details.end()) return true;
  const launch::CompletedProcess ran =
      run_kubectl(fmt::format("cannot ask Kubernetes for the job '{}'", record.name),
                  kubectl(record, {"get", last->second, "--ignore-not-found", "--output=name"}));
  return !trim(ran.out).empty();
}

void KubernetesTarget::locate(const JobSpec& job, JobRecord& record) const {
  if (!options_.context.empty()) record.details[kContext] = options_.context;
  if (!options_.documents.name_space.empty())
    record.details[kNamespace] = options_.documents.name_space;
  record.details[kKind] = resources_of(options_.documents.kind);
  if (options_.documents.kind == KubernetesKind::kJob) record.details[kRole] = leading_role(job);
  const KubernetesManifests made =
      kubernetes_manifests(job, record.name, options_.documents, options_.tls);
  if (job.task_count() > 1) {
    const Json last = made.documents.size() > 1 ? made.documents.back()
                                                : kubernetes_secret(made, options_.documents, {});
    record.details[kLast] = to_lower(last.at("kind").get<std::string>()) + "/" +
                            last.at("metadata").at("name").get<std::string>();
  }
}

bool KubernetesTarget::recognise(JobRecord& record) {
  const auto found = find_own(record);
  if (!found) return false;
  if (!is_whole(record)) {
    // The rest may still come from a kubectl that outlived its submission, or from another machine
    // that shares the folder of records and not its locks.
    if (system_clock().wall_seconds() - record.submitted < to_seconds(kMayCome)) return false;
    log::warning(fmt::format(
        "the submission of the job {} ended in its middle, and its tasks would wait for "
        "ever: what Kubernetes has of it is taken away",
        record.name));
    remove(record);
    return false;
  }
  record.details[kNamespace] = found->text("/metadata/namespace");
  record.id = kubernetes_name(record.name);
  return true;
}

void KubernetesTarget::submit(const JobSpec& job, JobRecord& record) {
  const bool tls = options_.tls && job.task_count() > 1;
  const KubernetesManifests manifests =
      kubernetes_manifests(job, record.name, options_.documents, tls);
  locate(job, record);
  record.id = manifests.name;
  local_file_system()
      .write_atomically(join_path(record.folder, "kubernetes.yaml"), to_yaml(manifests))
      .value();

  const internal::Answer leading = create_leading(record, manifests.documents.front());
  record.details[kNamespace] = leading.text("/metadata/namespace");

  std::vector<Json> others;
  const auto add = [&](Json document) {
    document["metadata"]["ownerReferences"] =
        Json::array({{{"apiVersion", leading.text("/apiVersion")},
                      {"kind", leading.text("/kind")},
                      {"name", leading.text("/metadata/name")},
                      {"uid", leading.text("/metadata/uid")}}});
    others.push_back(std::move(document));
  };
  if (job.task_count() > 1) {
    add(kubernetes_secret(manifests, options_.documents, make_secrets(manifests.name, tls)));
  }
  for (size_t i = 1; i < manifests.documents.size(); ++i) add(manifests.documents[i]);
  if (others.empty()) return;
  try {
    create(record, others, "name");  // the Secret is printed nowhere
  } catch (const Error& error) {
    try {
      remove(record);
    } catch (const Error& again) {
      throw UnclearSubmission(
          error.with_detail("and what was created before is still there: " + again.message()),
          record);
    }
    throw;
  }
}

internal::Answer KubernetesTarget::create_leading(const JobRecord& record,
                                                  const Json& document) const {
  // Asked before anything is sent, a cluster that is not there is no unclear submission.
  check_kind(record);
  if (auto found = find_leading(record)) {
    if (is_own(*found, record)) return *std::move(found);
    throw invalid_argument(create_what(record) + ": it already exists", kTakeAnotherName);
  }
  Json marked = document;
  if (!record.submission.empty())
    marked["metadata"]["annotations"][kSubmissionMark] = record.submission;
  try {
    return {create_what(record), "kubectl create", create(record, {marked}, "json")};
  } catch (const Error& error) {
    // Without an answer it may exist.
    if (error.kind() != ErrorKind::kTimeout && error.kind() != ErrorKind::kUnavailable) throw;
    try {
      if (auto found = find_own(record)) return *std::move(found);
    } catch (const Error&) {
      // Then it is not known.
    }
    throw UnclearSubmission(error, record);
  }
}

nlohmann::json KubernetesTarget::list(const JobRecord& record) const {
  const internal::Answer found =
      ask(fmt::format("cannot ask Kubernetes for the job '{}'", record.name),
          kubectl(record, {"get", record.details.at(kKind) + ",pods",
                           "--selector=" + selector(record.id), "--output=json"}));
  found.list("/items");
  return found.json();
}

JobStatus KubernetesTarget::status(const JobRecord& record) {
  JobStatus status = kubernetes_status(list(record));
  if (status.state != JobState::kUnknown) return status;
  const auto mark = local_file_system().read_file(join_path(record.folder, kCancelledMark));
  if (!mark.ok()) {
    status.detail = "the cluster does not know it any more";
  } else if (const auto end = end_of(mark.value())) {
    status = *end;
  } else {
    status.state = JobState::kCancelled;
  }
  status.forgotten = true;
  return status;
}

std::string KubernetesTarget::where(const JobRecord& record) const {
  const auto context = record.details.find(kContext);
  return context == record.details.end() ? "" : context->second;
}

void KubernetesTarget::logs(const JobRecord& record, const LogOptions& options,
                            const LogSink& sink) {
  const auto wanted = [&](const KubernetesPod& pod) {
    return options.task.empty() || pod.status.name == options.task;
  };
  LogFollower follower(sink, options.interrupted);
  for (bool last = false; !last;) {
    const auto answer = internal::ask_patiently(options, [&] { return list(record); });
    if (!answer) return;
    const nlohmann::json& found = *answer;
    const JobStatus status = kubernetes_status(found);
    // One look more when the job has ended: a pod may have come since the look before.
    last = !options.follow || is_final(status.state) || status.state == JobState::kUnknown;
    std::vector<std::string> names;
    for (const KubernetesPod& pod : kubernetes_pods(found)) {
      names.push_back(pod.status.name);
      if (!wanted(pod) || !pod.started) continue;
      std::vector<std::string> words = {"logs", pod.name};
      if (options.follow) words.push_back("--follow");
      if (options.tail) words.push_back(fmt::format("--tail={}", *options.tail));
      follower.follow(pod.name, kubectl(record, words),
                      options.task.empty() ? fmt::format("[{}] ", pod.status.name) : "");
      // Without following, the logs of tasks come one after another.
      if (!options.follow) {
        while (!follower.idle() && !options.interrupted()) follower.wait(kLookForPods);
      }
    }
    if (last && !options.task.empty() && std::ranges::find(names, options.task) == names.end()) {
      throw not_found(fmt::format("the job '{}' has no task '{}'; it has {}", record.name,
                                  options.task, join_quoted(names)),
                      "`muster jobs status` lists them");
    }
    do {
      if (options.interrupted()) return;
      follower.wait(kLookForPods);
      if (!last && follower.idle()) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    } while (last && !follower.idle());
  }
}

void KubernetesTarget::remove(const JobRecord& record) const {
  // By name: the labels may also belong to a foreign job with other roles. The cluster removes the
  // dependent objects.
  run_kubectl(fmt::format("cannot cancel the job '{}' in Kubernetes", record.name),
              kubectl(record, {"delete", record.details.at(kKind), leading_name(record),
                               "--ignore-not-found", "--wait=false"}));
}

void KubernetesTarget::cancel(const JobRecord& record) {
  const JobStatus status = kubernetes_status(list(record));
  if (is_over(status)) return;
  remove(record);
  local_file_system()
      .write_atomically(join_path(record.folder, kCancelledMark), mark_of(status))
      .value();
}

}  // namespace muster::inline v0_1::jobs
