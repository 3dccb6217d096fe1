// The end of a job, kept with its record when it was seen: a target forgets its jobs, and does not
// always answer, and an end stays one. A search is not kept so: it may continue in its folder.
// Thread safety: several processes at a time may ask for one job.
#pragma once

#include <functional>
#include <optional>

#include "muster/jobs/job_record.h"
#include "muster/jobs/target.h"
#include "muster/jobs/task_error.h"

namespace muster::inline v0_1::jobs {

constexpr const char* kEndFile = "end.json";  // in the folder of a job

// The recorded end of the job; nothing if there is none. The end of an earlier submission in the
// same folder does not count.
std::optional<JobStatus> final_status(const JobRecord& record);

// Returns the end that was seen, without asking the target; else the result of `ask`, which is kept
// if the job is_over(). Throws the errors of `ask`.
JobStatus final_or_current_status(const JobRecord& record, const std::function<JobStatus()>& ask);

// REQUIRES: final_status() returned `end`. Asks the target anyway, whether it still has the job and
// its name. The end stays the answer, also if the target does not know the state of the job; it is
// `forgotten` if the target answers so.
JobStatus recheck_status(const JobRecord& record, const JobStatus& end,
                         const std::function<JobStatus()>& ask);

// Returns the error that was kept with the end that was seen, without reading a log; else the
// result of `ask`, which is kept if there is such an end.
std::optional<TaskError> final_or_current_error(
    const JobRecord& record, const std::function<std::optional<TaskError>()>& ask);

}  // namespace muster::inline v0_1::jobs
