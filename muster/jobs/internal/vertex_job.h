// A job as Vertex AI's resources: a CustomJob, or a HyperparameterTuningJob for a search. Thread
// safety: pure functions.
//
// Vertex AI numbers pools instead of naming them: 0 is the chief, 1 the workers, 2 the parameter
// servers, 3 the evaluators. From them it writes TF_CONFIG for each task.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/jobs/job_spec.h"
#include "muster/jobs/vertex_options.h"

namespace muster::inline v0_1::jobs::internal {

// The resource, and how it is made.
struct VertexJob {
  bool tuning = false;                // a HyperparameterTuningJob
  nlohmann::ordered_json resource{};  // the body of the request that creates it
  std::vector<std::string> notes{};   // notes for the user, one sentence each
};

// Whether tasks of the job need a token made for it: it has several, and the environments of its
// pools bring no protection of their own (a file of a token, certificates, or the setting that the
// network keeps unauthenticated peers out).
bool needs_token(const JobSpec& job);

// Makes the resource of the job that its record calls `name`. `token` becomes a variable of jobs
// with several tasks; empty: there is none. Throws InvalidArgument for a job without an image, with
// machines or accelerators that Vertex AI does not have, and for values that it does not take.
VertexJob vertex_job(const JobSpec& job, const std::string& name, const VertexOptions& options,
                     const std::string& token = {});

}  // namespace muster::inline v0_1::jobs::internal
