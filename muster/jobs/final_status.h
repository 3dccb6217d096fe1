// The end of a job, kept next to its record when it was seen: a target forgets its jobs, and does
// not always answer, and an end stays one. A search is not kept so: it may go on in its folder.
// Thread safety: several processes at a time may ask for one job.
#pragma once

#include <functional>
#include <optional>

#include "muster/jobs/job_record.h"
#include "muster/jobs/target.h"
#include "muster/jobs/task_error.h"

namespace muster::inline v0_1::jobs {

constexpr const char* kEndFile = "end.json";  // in the folder of a job

// The end that was seen of the job; nothing when none was. That of an earlier submission in the
// same folder is none.
std::optional<JobStatus> final_status(const JobRecord& record);

// Returns the end that was seen, without a request; else what `ask` returns, which is kept when
// the job is_over(). Throws what `ask` throws.
JobStatus final_or_current_status(const JobRecord& record, const std::function<JobStatus()>& ask);

// REQUIRES: final_status() returned `end`. Asks anyway: whether the target still has the job,
// and its name with it. The end stays the answer, also where the target does not say how the job
// is; it is `forgotten` where the target answers so.
JobStatus recheck_status(const JobRecord& record, const JobStatus& end,
                         const std::function<JobStatus()>& ask);

// Returns the error that was kept with the end that was seen, and asks for no log then; else what
// `ask` returns, which is kept where there is such an end.
std::optional<TaskError> final_or_current_error(
    const JobRecord& record, const std::function<std::optional<TaskError>()>& ask);

}  // namespace muster::inline v0_1::jobs
