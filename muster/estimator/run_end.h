// How the last run of a model_dir ended. The chief writes it there at a clean end, for tasks of any
// role: a task that waits for a checkpoint learns that none will come. The file does not exist
// while a run continues, nor after a run that failed or was stopped by a signal.
// Thread safety: values and free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/files/file_systems.h"

namespace muster::inline v0_1 {

// Why a run ended.
enum class EndReason {
  kMaxSteps,    // "max_steps": the last step is reached
  kSteps,       // "steps": the call's number of steps was made
  kEndOfInput,  // "end_of_input"
  kHook,        // "hook": a hook asked for it
};
// Returns the word in the file.
MUSTER_EXPORT std::string describe(EndReason reason);

// The content of run_end.json in a model_dir: {"reason": "max_steps", "global_step": 1000}.
struct RunEnd {
  EndReason reason = EndReason::kMaxSteps;
  int64_t global_step = 0;  // of the last checkpoint
  std::string run = {};     // MUSTER_RUN_ID of the chief, if set
  bool operator==(const RunEnd&) const = default;
};

// Reads the file. Returns nothing when there is none. Throws Corrupt with the file's name for other
// content, and Unavailable when it cannot be read.
MUSTER_EXPORT std::optional<RunEnd> read_run_end(const std::string& model_dir,
                                                 FileSystem& fs = file_systems());

// Replaces the file atomically. Throws the errors of the file system.
MUSTER_EXPORT void write_run_end(const std::string& model_dir, const RunEnd& end,
                                 FileSystem& fs = file_systems());

// Removes the file, if there is one, because a run begins. Throws the errors of the file system.
MUSTER_EXPORT void remove_run_end(const std::string& model_dir, FileSystem& fs = file_systems());

}  // namespace muster::inline v0_1
