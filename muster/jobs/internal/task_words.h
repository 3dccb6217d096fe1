// The command line of a task, as containers take it. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/jobs/job_spec.h"

namespace muster::inline v0_1::jobs::internal {

// What is run in place of the image's entry point; empty: that itself.
inline std::vector<std::string> command_of(const JobSpec& job, const Pool& pool) {
  return pool.command.empty() ? job.program : pool.command;
}

// The arguments, with --job-dir where the job has one.
inline std::vector<std::string> arguments_of(const JobSpec& job, const Pool& pool) {
  std::vector<std::string> words = pool.args.empty() ? job.args : pool.args;
  if (!job.job_dir.empty()) words.push_back("--job-dir=" + job.job_dir);
  return words;
}

}  // namespace muster::inline v0_1::jobs::internal
