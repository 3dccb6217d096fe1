// The fields of the kinds that Muster creates in Kubernetes, as its API reference (batch/v1,
// core/v1 of 1.31) and Kubeflow's (kubeflow.org/v1) list them, to check documents against. Only for
// tests. Thread safety: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace muster::inline v0_1::jobs::internal {

// The faults for which a strictly validating server would refuse the document: fields that the kind
// does not have, values of another type or outside of their list, and required fields that are
// missing, each with its path. Empty for a good document.
std::vector<std::string> kubernetes_problems(const nlohmann::json& document);
// The same of a CustomJob, or of a HyperparameterTuningJob.
std::vector<std::string> vertex_problems(const nlohmann::json& resource);

}  // namespace muster::inline v0_1::jobs::internal
