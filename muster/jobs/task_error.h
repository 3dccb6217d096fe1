// Why a task of a job failed, in its own words. Thread safety: as Target.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "muster/jobs/job_record.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

// The error of a failed task.
struct TaskError {
  std::string task{};                 // "worker-1"
  std::optional<int> exit_code = {};  // 128 + n for signal n
  std::vector<std::string> lines = {};
  // Whether the task printed the lines. A killed task could print nothing; then they say how it
  // ended.
  bool said = true;
};

// The last error in the output of a task, with the lines that belong to it, at most 20
// (launch::SaidError). If there is none, the last two lines that are not empty. Pure.
std::vector<std::string> error_lines(const std::vector<std::string>& printed);

// Returns the error of the task that failed. If several failed, this is the task that the job's
// detail names, else the first one that did not end because others had. If that error only repeats
// another task's failure, or says that a task was lost, it gives way to that task's own error. For
// a task that was killed or stopped, and printed no error, it says how the task ended. Returns
// nothing if the job has not failed, no task of it is known to have, or its log does not exist.
// Reads the last lines of logs, for 10 s at most if the target sends them, in addition to the time
// in which it answers at all.
std::optional<TaskError> task_error_of(Target& target, const JobRecord& record,
                                       const JobStatus& status,
                                       std::chrono::milliseconds most = std::chrono::seconds(10));

// If the detail of a failed job only names a task that ended after the task of `error`, it is
// replaced by that task's end.
void tell_who_failed(JobStatus& status, const TaskError& error);

}  // namespace muster::inline v0_1::jobs
