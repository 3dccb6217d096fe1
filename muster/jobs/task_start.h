// The start of one task of a job: its command, and its environment as AI Platform and Vertex AI
// write it. Thread safety: values and pure functions.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/jobs/job_spec.h"

namespace muster::inline v0_1::jobs {

// One task of a job.
struct JobTask {
  std::string role{};  // "worker"
  int index = 0;
  bool operator==(const JobTask&) const = default;
  std::string name() const;  // "worker-0"
};

// All tasks: chief, workers, parameter servers, evaluators, which is the order of their numbers on
// every target.
std::vector<JobTask> tasks_of(const JobSpec& job);

// The pools of a job that flags describe instead of a configuration. The first task is a chief if
// there is one, or if there are servers.
std::vector<Pool> pools_of_counts(bool chief, int workers, int servers, bool evaluator);

// The command line of a task of that pool: the job's program, or else the pool's command; the
// pool's arguments, or else the job's; --job-dir if the job has one and no argument sets it.
std::vector<std::string> words_of(const JobSpec& job, const Pool& pool);

// Throws InvalidArgument if the pool's environment sets a variable that each target sets itself,
// except for those that this target leaves to the job.
void check_environment(const Pool& pool, const std::set<std::string>& left_to_job = {});

// TF_CONFIG of a task, of the tasks' addresses in the order of tasks_of(). As those services write
// it: the chief is "chief" or "master", an evaluator is in no cluster, the environment is "cloud",
// and "job" is the configuration as a text.
std::string tf_config_of(const JobSpec& job, const JobTask& task,
                         const std::vector<std::string>& addresses);

// The variables of a task besides TF_CONFIG: the variables of its pool, CLOUD_ML_JOB_ID, and for a
// trial CLOUD_ML_TRIAL_ID.
std::vector<std::pair<std::string, std::string>> variables_of(const JobSpec& job,
                                                              const JobTask& task);

}  // namespace muster::inline v0_1::jobs
