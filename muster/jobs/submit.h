// The implementation of `muster submit` without its flags. Thread safety: free functions.
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
// job has ended, or its target answers that it has no such job; a job whose target does not answer
// may run. It also throws if a program of this machine trains in the directory. Runs of other
// accounts and machines in a bucket are not known here.
void check_job_dir(const JobStore& store, const std::string& job_dir, const StatusOf& status_of);

// A record in the store, and the lock that says that its job is being submitted.
struct Claim {
  JobRecord record{};
  FileDescriptor lock{};
  // The record that had the name before, and was put aside: to be brought back, or removed.
  std::optional<JobRecord> before = {};
};

// Makes the job's record, whose name becomes the job's. Of several processes that claim the same
// directory or the same name at a time, one gets it. `complete` fills in the rest of the record,
// and of its folder, before others see it. The record of a job of that name that has ended, and had
// the same command, target and directory, is put aside if the target frees names, or has forgotten
// that job. Throws InvalidArgument as check_job_dir() does, for a name that is taken, and when the
// submission of the same command to the same target did not end before.
Claim claim_job(JobStore& store, const Target& target, JobSpec& job, Clock& clock,
                const StatusOf& status_of, const std::function<void(JobRecord&)>& complete);

// Removes the earlier record of the name, and says so.
void forget_earlier(const JobStore& store, const Claim& claim);

// As claim_job() for a record of a job that continues in its directory, with another mark. Throws
// Unavailable if another command has forgotten the record.
Claim claim_again(JobStore& store, JobRecord record, const JobSpec& job, Clock& clock,
                  const StatusOf& status_of, const std::function<void(JobRecord&)>& complete);

// Makes the job's record and starts it. If it could not be started, takes the record back and
// restores the earlier one of its name; the record stays if the target may have the job anyway.
// Throws the errors of claim_job() and Target::submit().
JobRecord submit_job(JobStore& store, Target& target, JobSpec job, Clock& clock,
                     const StatusOf& status_of);
// The record that submit_job() would make; nothing is made.
JobRecord preview_job(const JobStore& store, const Target& target, JobSpec& job);

// Forgets a job that was seen to have ended, with all in its folder. Throws Unavailable if another
// command has begun it anew since `record` was read, or is at work on it.
void forget_job(const JobStore& store, const JobRecord& record);

// The error that `check` throws, as a sentence with what to do; nothing if it throws none.
std::optional<std::string> reason_of(const std::function<void()>& check);
// The errors that submit_job() would throw now because of other jobs, one sentence each, with what
// to do; nothing is made.
std::vector<std::string> reasons_against(const JobStore& store, const Target& target, JobSpec job,
                                         const StatusOf& status_of);

// A new, unique mark for JobRecord::submission.
std::string new_submission();
// For this long a job may still appear whose submission was cut off: the started tools outlive the
// submission, and give up within two minutes, and a busy service answers late.
constexpr Duration kMayCome = std::chrono::minutes(5);
// Whether a process is submitting the job at this moment.
bool is_being_submitted(const JobRecord& record);
// Whether its submission ended: the target had answered. A job of this machine is known by its
// folder.
bool was_submitted(const JobRecord& record);
// Asks the target for a job whose submission did not end, and saves the record if the job exists,
// unless another record replaced it meanwhile. Returns was_submitted().
bool find_submitted(JobStore& store, Target& target, JobRecord& record);

}  // namespace muster::inline v0_1::jobs
