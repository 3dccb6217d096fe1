// The batch script of a job on Slurm. Thread safety: a pure function.
//
// It is one job of one step. Ninety seconds before its time is over, Slurm sends SIGUSR1 to the
// tasks; programs of Muster save and end with 138, and the script puts the job into the queue
// again. A task that was killed, or asks for it with 138, is a reason to start the step again in
// the same allocation. A job with a longest running time counts it over all its starts, as AI
// Platform and Vertex AI mean it: when that is used up it ends with 124, and is not put back. If
// Slurm itself ends the job (scancel, scontrol requeue, preemption), Slurm also decides what
// follows, and the script does nothing.
#pragma once

#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/jobs/job_spec.h"

namespace muster::inline v0_1::jobs {

// The script's parameters in addition to the job.
struct SlurmScriptOptions {
  std::string muster{};              // path of the muster binary, on every node
  std::string folder{};              // of the job's record, which every node can reach
  std::vector<std::string> flags{};  // of sbatch: "--partition=gpu"; they win over the script's own
  // The comment by which the job is known at Slurm, after a comment of the flags; empty: none.
  std::string comment = {};
};

// Files of the job's folder that the script and its tasks write.
constexpr const char* kSlurmExitFile = "exit_code";      // of the job, when its script has ended
constexpr const char* kSlurmFailedFile = "failed";       // "2 worker-1": why trying again is no use
constexpr const char* kSlurmTimeOverFile = "time_over";  // the seconds it might run for
constexpr const char* kSlurmBatchLog = "batch.log";      // of the script, srun and Slurm
constexpr const char* kSlurmTokenFile = "token";         // for this user alone

// The separator between a comment of the user's own and the job's.
constexpr const char* kSlurmCommentEnd = ":";

// Throws InvalidArgument if a variable gives sbatch an option that slurm_script() refuses as a
// flag.
void check_sbatch_variables(const Environment& environment);

// Returns the script. Throws InvalidArgument for a flag that does not begin with "--", or has a
// line end, and for --array and --clusters, by which it would not be one job of this cluster.
std::string slurm_script(const JobSpec& job, const SlurmScriptOptions& options);

}  // namespace muster::inline v0_1::jobs
