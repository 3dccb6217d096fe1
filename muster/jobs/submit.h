// What `muster submit` does behind its flags. Thread safety: free functions.
#pragma once

#include <functional>
#include <string>

#include "muster/base/clock.h"
#include "muster/jobs/job_record.h"
#include "muster/jobs/job_spec.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

// Asks the target of a record.
using StatusOf = std::function<JobStatus(const JobRecord& record)>;

// Throws InvalidArgument when a job of the store that has not ended has the same job directory,
// naming it, and when a program of this machine trains in it. What other accounts and machines run
// in a bucket is not known here.
void check_job_dir(const JobStore& store, const std::string& job_dir, const StatusOf& status_of);

// Makes the job's record and starts it. Takes the record back when it could not be started. The
// job's name becomes the record's.
JobRecord submit_job(JobStore& store, Target& target, JobSpec job, Clock& clock);
// The record that submit_job() would make; nothing is made.
JobRecord preview_job(const JobStore& store, const Target& target, JobSpec& job);

}  // namespace muster::inline v0_1::jobs
