// A search as a job of the store: its record, its trials on a target, and who keeps it. Thread
// safety: free functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "muster/base/clock.h"
#include "muster/jobs/job_record.h"
#include "muster/jobs/job_spec.h"
#include "muster/jobs/submit.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

// How a search is run.
struct SearchJobOptions {
  uint64_t seed = 1;
  std::function<bool()> interrupted = [] { return false; };
  // Of the jobs that may have its directory.
  StatusOf status_of = [](const JobRecord&) { return JobStatus{}; };
};

// How it ended.
struct SearchJobResult {
  std::string table;    // search_table(); empty when no trial has ended
  std::string summary;  // one or more lines: what is best, and where the picture is
  int exit_code = 0;    // 0: over, and a trial is best; 1: none is; 130: it was interrupted
};

// Runs the search of `job` in this process until it is over or interrupted. Throws what
// claim_job() and run_search() throw.
SearchJobResult run_search_job(JobStore& store, Target& target, JobSpec job, Clock& clock,
                               const SearchJobOptions& options);

// Whether the record is one of a search.
bool is_search(const JobRecord& record);
// What its folder tells: it runs while a process keeps it.
JobStatus search_status(const JobRecord& record);
// Sends SIGTERM to the process that keeps the search, which stops the trials; nothing when none
// does.
void cancel_search(const JobRecord& record);

}  // namespace muster::inline v0_1::jobs
