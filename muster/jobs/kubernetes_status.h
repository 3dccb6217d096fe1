// Converts Kubernetes' statements about a job's documents and pods into the status that all targets
// return. Thread safety: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

// One pod of a job. A task that was started again has several.
struct KubernetesPod {
  std::string name{};
  std::string role{};  // "worker"
  int index = 0;       // of the role
  TaskStatus status{};
  bool started = false;   // its container runs or ran, so it has a log
  std::string created{};  // time, as ISO 8601
  std::string why{};      // it does not start, or ended; empty: Kubernetes says nothing of it
};

// Reads the items of a list that `kubectl get jobs,pods -o json` prints, the oldest pod first.
std::vector<KubernetesPod> kubernetes_pods(const nlohmann::json& list);

// The status of the job with these items: Jobs, or one TFJob or PyTorchJob, and pods. It is
// succeeded when the task that leads is and no evaluator is at work, failed when any document is.
// Without a document it is unknown, or running while pods of it are left, which end then.
JobStatus kubernetes_status(const nlohmann::json& list);

}  // namespace muster::inline v0_1::jobs
