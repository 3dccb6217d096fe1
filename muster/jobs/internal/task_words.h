// The image and the command line of a task, as containers take it. Thread safety: pure functions.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/jobs/job_spec.h"
#include "muster/jobs/task_start.h"

namespace muster::inline v0_1::jobs::internal {

// The pool's image, else the one that --image names. Throws InvalidArgument if there is neither.
inline std::string image_of(const Pool& pool, const std::string& otherwise) {
  if (!pool.image.empty()) return pool.image;
  if (!otherwise.empty()) return otherwise;
  throw invalid_argument(
      fmt::format("no container image for the {} of the job", pool.role),
      "add --image=REGISTRY/NAME:VERSION to the command, or imageUri to the masterConfig of its "
      "configuration; muster image --tag=REGISTRY/NAME:VERSION --push builds one of the project in "
      "this folder");
}

// The command that replaces the image's entry point; empty: the entry point itself.
inline std::vector<std::string> command_of(const JobSpec& job, const Pool& pool) {
  return job.program.empty() ? pool.command : job.program;
}

// The arguments after it.
inline std::vector<std::string> arguments_of(const JobSpec& job, const Pool& pool) {
  const std::vector<std::string> words = words_of(job, pool);
  return {words.begin() + static_cast<std::ptrdiff_t>(command_of(job, pool).size()), words.end()};
}

}  // namespace muster::inline v0_1::jobs::internal
