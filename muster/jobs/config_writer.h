// Writes a job as AI Platform's configuration, which every target of `muster submit` reads, and
// gcloud too. Thread safety: a pure function.
#pragma once

#include <string>

#include "muster/jobs/job_spec.h"

namespace muster::inline v0_1::jobs {

// The YAML of trainingInput. A machine that has no type is written as "standard", as local jobs and
// Slurm need none.
std::string to_ai_platform_yaml(const JobSpec& job);

}  // namespace muster::inline v0_1::jobs
