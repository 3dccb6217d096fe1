#include "muster/command/job_dir.h"

#include <mutex>
#include <utility>

namespace muster::inline v0_1::command {
namespace {

std::mutex job_dir_mutex;

std::string& known_job_dir() {
  static auto* const directory = new std::string;
  return *directory;
}

}  // namespace

void set_job_dir(std::string directory) {
  const std::lock_guard lock(job_dir_mutex);
  known_job_dir() = std::move(directory);
}

std::string job_dir() {
  const std::lock_guard lock(job_dir_mutex);
  return known_job_dir();
}

}  // namespace muster::inline v0_1::command
