// The parts of Kubernetes' documents that every kind of job has: the pod of a task, with its
// container, variables, volumes and nodes. Thread safety: pure functions.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "muster/jobs/job_spec.h"
#include "muster/jobs/kubernetes_manifests.h"

namespace muster::inline v0_1::jobs::internal {

// The documents of a job in the making: the data that all their parts look up.
struct KubernetesMaking {
  const JobSpec& job;
  const KubernetesOptions& options;
  const std::string& name;  // of the job, as Kubernetes allows it
  bool tls{};
  std::map<std::string, std::string> cpu{}, memory{};  // by role; "" means all others

  bool distributed() const { return job.task_count() > 1; }
  bool plain() const { return options.kind == KubernetesKind::kJob; }
};

// The Secret that the pods of this job read.
std::string secret_name(const std::string& name);

// The labels of a document, or of the pods of a role.
nlohmann::ordered_json labels(const KubernetesMaking& making, const std::string& role = "");

// The name of the container in which the program runs.
std::string_view container_name(KubernetesKind kind);

// The template of the pods of a role. Throws InvalidArgument if there is no image, and for values
// that Kubernetes does not take.
nlohmann::ordered_json pod_template(const KubernetesMaking& making, const Pool& pool);

}  // namespace muster::inline v0_1::jobs::internal
