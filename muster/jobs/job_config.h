// Reads the configuration of a job: AI Platform's (`trainingInput`, or its body alone) or Vertex
// AI's (a CustomJob, the body of its `jobSpec` as `gcloud ai custom-jobs create --config` takes it,
// or a hyper-parameter tuning job), in YAML or JSON. Thread safety: free functions.
//
// Errors are InvalidArgument and show the line: unknown keys with the nearest known one, values of
// the wrong kind, values that a service would refuse, and files that are something else.
#pragma once

#include <string>
#include <vector>

#include "muster/jobs/job_spec.h"

namespace muster::inline v0_1::jobs {

struct JobConfig {
  JobSpec job{};                     // its program is not in a configuration
  std::vector<std::string> notes{};  // a line for each thing that is read and not used
};

// `name` is the file's, for errors.
JobConfig read_job_config(const std::string& text, const std::string& name);
// Reads the file. Also throws the errors of opening it.
JobConfig read_job_config_file(const std::string& path);

}  // namespace muster::inline v0_1::jobs
