// The files by which the tasks of a job on Slurm report their state, in the job's folder. Thread
// safety: each task has a file of its own.
#pragma once

#include <optional>
#include <string>

namespace muster::inline v0_1::jobs::internal {

constexpr const char* kSlurmJobFile = "job.json";  // the JobSpec

// The content of a task's file.
struct SlurmTaskFile {
  std::string host{};
  std::optional<int> exit_code = {};  // 128 + n for signal n; nothing while it runs
};

void write_task(const std::string& folder, const std::string& task, const SlurmTaskFile& file);
// Returns nothing if there is none that can be read: the task has not begun.
std::optional<SlurmTaskFile> read_task(const std::string& folder, const std::string& task);

}  // namespace muster::inline v0_1::jobs::internal
