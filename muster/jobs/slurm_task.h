// One task of a job on Slurm: the process that srun starts on the nodes. It finds its place by
// Slurm's variables, and starts the program with TF_CONFIG. Thread safety: free functions.
#pragma once

#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/jobs/job_spec.h"

namespace muster::inline v0_1::jobs {

// Where the tasks of a step listen, in the order of their numbers: on the node that each is on, by
// SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE (of a step with block distribution), at ports
// from 20000 to 31999 that follow from SLURM_JOB_ID, `attempt` and the place on the node. Where
// there is one node alone it is called 127.0.0.1. Throws InvalidArgument when Slurm says something
// else than the job has tasks.
std::vector<std::string> slurm_addresses(const JobSpec& job, const Environment& environment,
                                         int attempt);

// Runs the task of the job in `folder` that this process is, and returns its exit code. The
// program's output goes to FOLDER/<task>.log, its end into FOLDER/<task>.json, and a failure that
// will occur again into FOLDER/failed. Signals of Slurm reach the program by themselves.
int run_slurm_task(const std::string& folder, int attempt, const Environment& environment);

}  // namespace muster::inline v0_1::jobs
