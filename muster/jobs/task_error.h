// Why a task of a job failed, in its own words. Thread safety: as Target.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "muster/jobs/job_record.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

// What a task that failed said at its end.
struct TaskError {
  std::string task{};                 // "worker-1"
  std::optional<int> exit_code = {};  // 128 + n for signal n
  std::vector<std::string> lines = {};
  // Whether the task printed the lines. One that was killed could say nothing, and they say what
  // became of it.
  bool said = true;
};

// From a task's output, in order: the last error with the lines that belong to it, at most 20
// (launch::SaidError). Where there is none, the last two lines that are not empty. Pure.
std::vector<std::string> error_lines(const std::vector<std::string>& printed);

// Returns the error of the task that failed: of several the one that the job's detail names, else
// the first that did not end because others had. Where that one's error only tells what another
// task failed with, or that it lost one, it gives way to that task's own. Of a task that was
// killed, or stopped, and printed no error, what became of it. Nothing where the job has not
// failed, no task of it is known to have, or its log is not there. Reads the last lines of logs,
// for 10 s at most where the target sends them, after the time in which it answers at all.
std::optional<TaskError> task_error_of(Target& target, const JobRecord& record,
                                       const JobStatus& status,
                                       std::chrono::milliseconds most = std::chrono::seconds(10));

// Where the detail of a job that failed is only how another task ended, which followed the one of
// `error`, it tells how that one did.
void tell_who_failed(JobStatus& status, const TaskError& error);

}  // namespace muster::inline v0_1::jobs
