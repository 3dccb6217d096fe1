// The command line of a task, as containers take it. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "muster/jobs/job_spec.h"
#include "muster/jobs/task_start.h"

namespace muster::inline v0_1::jobs::internal {

// What is run in place of the image's entry point; empty: that itself.
inline std::vector<std::string> command_of(const JobSpec& job, const Pool& pool) {
  return job.program.empty() ? pool.command : job.program;
}

// The words behind it.
inline std::vector<std::string> arguments_of(const JobSpec& job, const Pool& pool) {
  const std::vector<std::string> words = words_of(job, pool);
  return {words.begin() + static_cast<std::ptrdiff_t>(command_of(job, pool).size()), words.end()};
}

}  // namespace muster::inline v0_1::jobs::internal
