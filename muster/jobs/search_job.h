// A search as a job of the store: its record, its trials on a target, and the process that keeps
// it. Thread safety: free functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/jobs/job_record.h"
#include "muster/jobs/job_spec.h"
#include "muster/jobs/search.h"
#include "muster/jobs/submit.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

// How a search is run.
struct SearchJobOptions {
  uint64_t seed = 1;
  std::function<bool()> interrupted = [] { return false; };
  // The status of the jobs that may have its directory.
  StatusOf status_of = [](const JobRecord&) { return JobStatus{.forgotten = true}; };
};

// How it ended.
struct SearchJobResult {
  std::string table{};    // search_table(); empty when no trial has ended
  std::string summary{};  // one or more lines: the best trial, and the places of the picture and
                          // the logs
  // 0: over, and a trial is best; 1: none is, or it gave up; 2: it gave up for a wrong argument;
  // 130: it was interrupted.
  int exit_code = 0;
};

// Runs the search of `job` in this process until it is over or interrupted. A search that continues
// keeps its record, unless the job has another name or target now. Trials that outlived a search in
// the same job directory, whose process was killed, are ended first, so that none runs twice.
// Throws the errors of claim_job(), run_search() and end_trials(), and InvalidArgument when a
// search in that directory runs on another machine, or was killed on another target.
SearchJobResult run_search_job(JobStore& store, Target& target, JobSpec job, Clock& clock,
                               const SearchJobOptions& options);

// The errors that run_search_job() would throw now, one sentence each, with what to do; nothing is
// made.
std::vector<std::string> reasons_against_search(const JobStore& store, const Target& target,
                                                JobSpec job, const SearchJobOptions& options);
// The actions of run_search_job(), for --dry-run: the search, its first trials, and the commands
// that the target starts for the first of them.
std::string describe_search_job(const JobStore& store, const Target& target, JobSpec job,
                                uint64_t seed);

// Whether the record is one of a search.
bool is_search(const JobRecord& record);
// The status from its folder: it runs while a process keeps it. Otherwise `target`, the record's
// target, is asked for trials that run on, unless all were seen to end.
JobStatus search_status(const JobRecord& record, Target& target);
// Its results so far, from its job directory; nothing before its first trial. `running` are the
// trials that run on without it: JobStatus::left_running. Throws if the directory cannot be read.
std::optional<Search> found_by(const JobRecord& record, const std::vector<int>& running = {});
// Asks the search to end: the process that keeps it stops the trials. If that process was killed,
// the running trials are asked. Throws Unavailable if one may still start, whose submission did not
// end.
void cancel_search(const JobRecord& record, Target& target);

}  // namespace muster::inline v0_1::jobs
