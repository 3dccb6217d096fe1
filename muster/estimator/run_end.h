// Says how the last run of a model_dir ended. The chief writes it there at a clean end, for tasks
// of any role: whoever waits for another checkpoint learns that none will come. There is none while
// a run goes on, and behind one that failed or was stopped by a signal.
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
  kMaxSteps,    // "max_steps": the step to end at is reached
  kSteps,       // "steps": as many as the call asked for are made
  kEndOfInput,  // "end_of_input"
  kHook,        // "hook": a hook asked for it
};
// The word that stands in the file.
MUSTER_EXPORT std::string describe(EndReason reason);

// What the file run_end.json of a model_dir holds: {"reason": "max_steps", "global_step": 1000}.
struct RunEnd {
  EndReason reason = EndReason::kMaxSteps;
  int64_t global_step = 0;  // of the last checkpoint
  std::string run = {};     // MUSTER_RUN_ID of the chief; in the file where it was set
  bool operator==(const RunEnd&) const = default;
};

// Reads it. Nothing when there is none. Throws Corrupt, naming the file, when it is not of this
// form, and Unavailable when it cannot be read.
MUSTER_EXPORT std::optional<RunEnd> read_run_end(const std::string& model_dir,
                                                 FileSystem& fs = file_systems());

// Writes it: aside, then in place of what was there. Throws what the file system says.
MUSTER_EXPORT void write_run_end(const std::string& model_dir, const RunEnd& end,
                                 FileSystem& fs = file_systems());

// Removes it, when there is one: a run begins. Throws what the file system says when it stays.
MUSTER_EXPORT void remove_run_end(const std::string& model_dir, FileSystem& fs = file_systems());

}  // namespace muster::inline v0_1
