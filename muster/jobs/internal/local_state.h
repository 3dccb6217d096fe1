// The files through which a job of this machine, and the commands that ask for it, communicate. All
// of them are in the job's folder. Thread safety: pure functions, and functions for one process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/file_descriptor.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs::internal {

constexpr const char* kJobFile = "job.json";      // the JobSpec
constexpr const char* kStateFile = "state.json";  // a LocalState
constexpr const char* kCancelFile = "cancelled";  // the end was requested
constexpr const char* kAllLog = "all.log";        // the lines of all tasks, with their names

// A process that keeps a job. Its number alone may be another's later, or on another machine that
// shares the folder.
struct Keeper {
  pid_t pid = 0;
  std::string host = {};
  int64_t began = 0;  // in clock ticks since this machine started
};
// The process of this machine with that number. `began` is 0 when there is none.
Keeper keeper_of(pid_t pid);

// How the job is, as the process says that keeps it.
struct LocalState {
  JobStatus status{};
  Keeper keeper = {};
};

void write_state(const std::string& folder, const LocalState& state);
// Returns nothing when there is no state yet. Throws Corrupt for a file that is none.
std::optional<LocalState> read_state(const std::string& folder);

// Takes the lock that the keeper of a job holds for as long as it lives; it is gone with the
// process however that ends. Returns a closed descriptor if another process holds it for a second.
FileDescriptor lock_folder(const std::string& folder);
// Whether a process holds that lock. A process that was killed holds it until its memory is cleared
// away, and is waited for, at most 5 s.
bool is_kept(const std::string& folder);
// Whether the keeper is, or was, a process of this machine.
bool is_here(const Keeper& keeper);
// Throws InvalidArgument when the keeper of the job `name` is on another machine.
void check_is_here(const Keeper& keeper, const std::string& name);
// Sends SIGTERM to a keeper of this machine, if its number still belongs to this process.
void end_keeper(const Keeper& keeper);

}  // namespace muster::inline v0_1::jobs::internal
