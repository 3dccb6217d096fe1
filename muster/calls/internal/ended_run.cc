#include "muster/calls/internal/ended_run.h"

#include <fmt/format.h>

#include "muster/base/log.h"

namespace muster::inline v0_1::distribute {
namespace {

constexpr const char* kNote = "run_ended.txt";

bool has_name(const std::string& model_dir, const std::string& job) {
  return !model_dir.empty() && !job.empty();
}

}  // namespace

void note_end_of_run(FileSystem& fs, const std::string& model_dir, const std::string& job) {
  if (!has_name(model_dir, job)) return;
  if (const Status written = fs.write_atomically(join_path(model_dir, kNote), job); !written.ok())
    log::debug(
        fmt::format("that the run has ended is noted nowhere: {}", written.error().message()));
}

bool run_has_ended(FileSystem& fs, const std::string& model_dir, const std::string& job) {
  if (!has_name(model_dir, job)) return false;
  const Result<std::string> noted = fs.read_file(join_path(model_dir, kNote));
  return noted.ok() && noted.value() == job;
}

}  // namespace muster::inline v0_1::distribute
