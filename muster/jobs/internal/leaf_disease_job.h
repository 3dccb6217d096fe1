// The job of the tutorial on leaf diseases, for tests: a chief and a worker with a GPU each, in one
// image. Thread safety: a pure function.
#pragma once

#include "muster/jobs/job_spec.h"

namespace muster::inline v0_1::jobs::internal {

// The job of golden/config.yaml, submitted with --job-dir, --region and arguments.
inline JobSpec leaf_disease_job() {
  JobSpec job;
  job.args = {"--epochs=5"};
  for (const char* role : {"chief", "worker"}) {
    Pool pool;
    pool.role = role;
    pool.count = 1;
    pool.machine_type = "n1-standard-8";
    pool.accelerator = {"NVIDIA_TESLA_T4", 1};
    pool.image = "gcr.io/PROJECT/leaf:latest";
    job.pools.push_back(pool);
  }
  job.job_dir = "gs://bucket/runs/3";
  job.region = "us-central1";
  return job;
}

}  // namespace muster::inline v0_1::jobs::internal
