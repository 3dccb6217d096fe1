// What `muster submit` does after its flags. Thread safety: free functions.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/file_descriptor.h"
#include "muster/jobs/job_record.h"
#include "muster/jobs/job_spec.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

// Asks the target of a record.
using StatusOf = std::function<JobStatus(const JobRecord& record)>;

// Throws InvalidArgument when a job of the store has the same job directory, naming it, unless that
// has ended, or its target answers that it has no such job; one whose target does not answer may
// run. So it does when a program of this machine trains in it. What other accounts and machines
// run in a bucket is not known here.
void check_job_dir(const JobStore& store, const std::string& job_dir, const StatusOf& status_of);

// A record in the store, and the lock that says that its job is being submitted.
struct Claim {
  JobRecord record{};
  FileDescriptor lock{};
  // What had the name before, and was put aside: to be brought back, or removed.
  std::optional<JobRecord> before = {};
};

// Makes the job's record, whose name becomes the job's. Of several processes that claim the same
// directory or the same name at a time, one gets it. `complete` fills in what else belongs to the
// record, and to its folder, before others see it. The record of a job of that name that has ended,
// and had the same command, target and directory, is put aside where the target frees names, or has
// forgotten that job. Throws InvalidArgument as check_job_dir() does, for a name that is taken, and
// when the submission of the same command to the same target did not end before.
Claim claim_job(JobStore& store, const Target& target, JobSpec& job, Clock& clock,
                const StatusOf& status_of, const std::function<void(JobRecord&)>& complete);

// Removes what had the name before, and says so.
void forget_earlier(const JobStore& store, const Claim& claim);

// As claim_job() for a record of the job that goes on in its directory, with another mark. Throws
// Unavailable where another command has forgotten that.
Claim claim_again(JobStore& store, JobRecord record, const JobSpec& job, Clock& clock,
                  const StatusOf& status_of, const std::function<void(JobRecord&)>& complete);

// Makes the job's record and starts it. Takes the record back when it could not be started, and
// brings back what had its name; it stays where the target may have the job anyway. Throws
// what claim_job() and Target::submit() throw.
JobRecord submit_job(JobStore& store, Target& target, JobSpec job, Clock& clock,
                     const StatusOf& status_of);
// The record that submit_job() would make; nothing is made.
JobRecord preview_job(const JobStore& store, const Target& target, JobSpec& job);

// Forgets a job that was seen to have ended, with all in its folder. Throws Unavailable where
// another command has begun it again since `record` was read, or is at work on it.
void forget_job(const JobStore& store, const JobRecord& record);

// The error that `check` throws, as a sentence with what to do; nothing where it throws none.
std::optional<std::string> reason_of(const std::function<void()>& check);
// What submit_job() would throw now because of other jobs, one sentence each, with what to do;
// nothing is made.
std::vector<std::string> reasons_against(const JobStore& store, const Target& target, JobSpec job,
                                         const StatusOf& status_of);

// A unique mark for JobRecord::submission.
std::string new_submission();
// For so long a job may still come whose submission was cut off: the tools that were started
// outlive that, and give up within two minutes, and what is busy answers late.
constexpr Duration kMayCome = std::chrono::minutes(5);
// Whether a process is submitting the job at this moment.
bool is_being_submitted(const JobRecord& record);
// Whether its submission ended: the target had answered. A job of this machine is known by its
// folder.
bool was_submitted(const JobRecord& record);
// Asks the target for a job whose submission did not end, and saves the record when it is there,
// unless another one was written in its place meanwhile. Returns was_submitted().
bool find_submitted(JobStore& store, Target& target, JobRecord& record);

}  // namespace muster::inline v0_1::jobs
