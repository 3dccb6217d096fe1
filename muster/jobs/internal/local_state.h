// The files by which a job of this machine, and those who ask for it, know of each other. All of
// them stand in the job's folder. Thread safety: pure functions, and those of one process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "muster/base/file_descriptor.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs::internal {

constexpr const char* kJobFile = "job.json";      // the JobSpec
constexpr const char* kStateFile = "state.json";  // a LocalState
constexpr const char* kCancelFile = "cancelled";  // somebody asked for the end
constexpr const char* kAllLog = "all.log";        // the lines of all tasks, with their names

// How the job is, as the process says that keeps it.
struct LocalState {
  JobStatus status;
  pid_t keeper = 0;
};

void write_state(const std::string& folder, const LocalState& state);
// Returns nothing when there is no state yet. Throws Corrupt for a file that is none.
std::optional<LocalState> read_state(const std::string& folder);

// Takes the lock that the keeper of a job holds for as long as it lives; it is gone with the
// process however that ends. Returns a closed descriptor when somebody holds it for a second.
FileDescriptor lock_folder(const std::string& folder);
// Whether somebody holds that lock.
bool is_kept(const std::string& folder);

}  // namespace muster::inline v0_1::jobs::internal
