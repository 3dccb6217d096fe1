#include "muster/jobs/kubernetes_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "muster/base/strings.h"
#include "muster/launch/exit_status.h"

namespace muster::inline v0_1::jobs {
namespace {

using nlohmann::json;

// Returns what stands at `path` ("status.phase"), or nothing of it.
const json& at(const json& value, std::string_view path) {
  static const json kNothing;
  const json* here = &value;
  for (const std::string& key : split(path, '.')) {
    if (!here->is_object() || !here->contains(key)) return kNothing;
    here = &here->at(key);
  }
  return *here;
}

std::string text_at(const json& value, std::string_view path) {
  const json& found = at(value, path);
  return found.is_string() ? found.get<std::string>() : "";
}

// Returns the label or annotation, whose name has dots of its own.
std::string mark(const json& item, const char* kind, const std::string& name) {
  const json& marks = at(item, std::string("metadata.") + kind);
  return marks.is_object() && marks.contains(name) && marks.at(name).is_string()
             ? marks.at(name).get<std::string>()
             : "";
}

std::string role_of(const json& item) {
  return mark(item, "labels", "app.kubernetes.io/component");
}

int index_of(const json& pod) {
  for (const std::string& text :
       {mark(pod, "annotations", "batch.kubernetes.io/job-completion-index"),
        mark(pod, "labels", "training.kubeflow.org/replica-index")}) {
    if (const auto index = parse_int(text)) return static_cast<int>(*index);
  }
  return 0;
}

JobState state_of_phase(const std::string& phase) {
  static const std::map<std::string, JobState> kStates = {{"Pending", JobState::kQueued},
                                                          {"Running", JobState::kRunning},
                                                          {"Succeeded", JobState::kSucceeded},
                                                          {"Failed", JobState::kFailed}};
  const auto it = kStates.find(phase);
  return it == kStates.end() ? JobState::kUnknown : it->second;
}

// Whether it was asked to go, and has not gone yet: a pod has its time to save.
bool is_being_deleted(const json& item) {
  return !text_at(item, "metadata.deletionTimestamp").empty();
}

std::string sentence(const std::string& reason, const std::string& message) {
  return reason.empty() || message.empty() ? reason + message : reason + ": " + message;
}

KubernetesPod read_pod(const json& item) {
  KubernetesPod pod{.name = text_at(item, "metadata.name"),
                    .role = role_of(item),
                    .index = index_of(item),
                    .created = text_at(item, "metadata.creationTimestamp")};
  pod.status = {.name = fmt::format("{}-{}", pod.role, pod.index),
                .state = state_of_phase(text_at(item, "status.phase")),
                .place = pod.name};
  if (is_being_deleted(item) && !is_final(pod.status.state)) pod.status.state = JobState::kEnding;
  for (const json& container : at(item, "status.containerStatuses")) {
    const json& ended = at(container, "state.terminated");
    if (ended.is_object()) {
      const json& code = at(ended, "exitCode");
      pod.status.exit_code = code.is_number_integer() ? code.get<int>() : 0;
      // "OOMKilled", and "StartError" where the image has no such program; "Error" is every code.
      const std::string reason = text_at(ended, "reason");
      if (reason != "Error" && reason != "Completed") {
        pod.why = sentence(reason, text_at(ended, "message"));
      }
    }
    pod.started = ended.is_object() || at(container, "state.running").is_object();
    // "ContainerCreating" is not news.
    const std::string reason = text_at(container, "state.waiting.reason");
    const std::string message = text_at(container, "state.waiting.message");
    if (!message.empty() || reason.find("Err") != std::string::npos) {
      pod.why = sentence(reason, message);
    }
  }
  for (const json& condition : at(item, "status.conditions")) {
    if (text_at(condition, "type") != "PodScheduled" || text_at(condition, "status") != "False") {
      continue;
    }
    pod.why = sentence(text_at(condition, "reason"), text_at(condition, "message"));
  }
  return pod;
}

// One Job, TFJob or PyTorchJob.
struct Document {
  std::string role{};  // empty: of the whole job
  JobState state = JobState::kQueued;
  std::string why{};
  bool is_being_deleted = false;
};

Document read_document(const json& item) {
  static const std::map<std::string, JobState> kConditions = {{"Complete", JobState::kSucceeded},
                                                              {"Succeeded", JobState::kSucceeded},
                                                              {"Failed", JobState::kFailed},
                                                              {"Running", JobState::kRunning},
                                                              {"Restarting", JobState::kRunning}};
  Document document{.role = role_of(item), .is_being_deleted = is_being_deleted(item)};
  for (const json& condition : at(item, "status.conditions")) {
    const auto it = kConditions.find(text_at(condition, "type"));
    if (it == kConditions.end() || text_at(condition, "status") != "True") continue;
    if (is_final(document.state)) continue;
    document.state = it->second;
    document.why = sentence(text_at(condition, "reason"), text_at(condition, "message"));
  }
  if (document.state == JobState::kQueued && at(item, "status.active").is_number() &&
      at(item, "status.active").get<int>() > 0) {
    document.state = JobState::kRunning;
  }
  return document;
}

// Of several failures the one that came by itself.
std::optional<int> exit_code_of(const std::vector<KubernetesPod>& pods) {
  std::optional<int> code;
  for (const KubernetesPod& pod : pods) {
    if (!pod.status.exit_code || *pod.status.exit_code == 0) continue;
    if (!ended_by_others(*pod.status.exit_code)) return pod.status.exit_code;
    code = pod.status.exit_code;
  }
  return code;
}

void add_tasks(const std::vector<KubernetesPod>& pods, JobStatus& status) {
  std::map<std::string, int> starts;
  std::map<std::string, size_t> places;
  for (const KubernetesPod& pod : pods) {  // the oldest first, so the newest stays
    status.restarts = std::max(status.restarts, starts[pod.status.name]++);
    const auto [place, is_new] = places.emplace(pod.status.name, status.tasks.size());
    if (is_new) {
      status.tasks.push_back(pod.status);
    } else {
      status.tasks[place->second] = pod.status;
    }
  }
}

std::string why_it_waits(const std::vector<KubernetesPod>& pods) {
  for (const KubernetesPod& pod : pods) {
    if (pod.status.state == JobState::kQueued && !pod.why.empty()) {
      return pod.status.name + " waits: " + pod.why;
    }
  }
  return "";
}

}  // namespace

std::vector<KubernetesPod> kubernetes_pods(const json& list) {
  std::vector<KubernetesPod> pods;
  for (const json& item : at(list, "items")) {
    if (text_at(item, "kind") == "Pod") pods.push_back(read_pod(item));
  }
  std::ranges::stable_sort(pods, {}, &KubernetesPod::created);
  return pods;
}

JobStatus kubernetes_status(const json& list) {
  std::vector<Document> documents;
  for (const json& item : at(list, "items")) {
    if (text_at(item, "kind") != "Pod") documents.push_back(read_document(item));
  }
  JobStatus status;
  const std::vector<KubernetesPod> pods = kubernetes_pods(list);
  const auto is_left = [](const KubernetesPod& pod) { return !is_final(pod.status.state); };
  // Deleting a job takes its documents at once, and its pods when they have saved.
  if (documents.empty() && std::ranges::none_of(pods, is_left)) return status;
  add_tasks(pods, status);
  if (documents.empty()) {
    status.state = JobState::kEnding;
    status.detail = "it was deleted, and its tasks save what they have";
    return status;
  }

  const auto of_role = [&](const std::string& role) {
    return std::ranges::find(documents, role, &Document::role);
  };
  auto leading = of_role("chief");
  if (leading == documents.end()) leading = of_role("worker");
  if (leading == documents.end()) leading = documents.begin();
  const auto is = [&](JobState state) {
    return [state](const Document& document) { return document.state == state; };
  };
  // An evaluator is next to the run: that it failed is not the run's failure.
  const auto failed = std::ranges::find_if(documents, [](const Document& document) {
    return document.state == JobState::kFailed && document.role != "evaluator";
  });
  const auto evaluator = of_role("evaluator");
  if (leading->is_being_deleted && !is_final(leading->state)) {
    status.state = JobState::kEnding;
  } else if (leading->state == JobState::kSucceeded &&
             (evaluator == documents.end() || is_final(evaluator->state))) {
    status.state = JobState::kSucceeded;
    status.exit_code = 0;
    const auto left = std::ranges::find_if(documents, is(JobState::kRunning));
    if (left != documents.end()) {
      status.detail = fmt::format("tasks of the role {} are still there", left->role);
    }
  } else if (failed != documents.end()) {
    status.state = JobState::kFailed;
    status.exit_code = exit_code_of(pods);
    status.detail = failed->role.empty() ? failed->why : failed->role + ": " + failed->why;
    for (const KubernetesPod& pod : pods) {
      if (pod.status.exit_code == status.exit_code && !pod.why.empty()) {
        status.detail += fmt::format("; {}: {}", pod.status.name, pod.why);
        break;
      }
    }
    // Indexed Jobs do not know each other.
    if (std::ranges::any_of(documents, is(JobState::kRunning))) {
      status.detail += "; the other tasks wait for it in vain, and cancelling frees their nodes";
    }
  } else {
    const bool runs = std::ranges::any_of(pods, [](const KubernetesPod& pod) {
      return pod.status.state == JobState::kRunning || pod.status.state == JobState::kEnding;
    });
    status.state = runs ? JobState::kRunning : JobState::kQueued;
    status.detail = why_it_waits(pods);
  }
  // A Job that has not ended starts its pods again, after a while.
  status.may_return = std::ranges::any_of(
      documents, [](const Document& document) { return !is_final(document.state); });
  return status;
}

}  // namespace muster::inline v0_1::jobs
