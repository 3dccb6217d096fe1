// Deletes files of checkpoints in a model_dir: those of a checkpoint that is not kept, and
// leftovers of stopped saves. Thread safety: free functions; only one thread may save into a
// directory meanwhile, and none during remove_leftovers().
#pragma once

#include <set>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/internal/state_file.h"

namespace muster::inline v0_1::internal {

// Deletes files of a save that was stopped: those that were not committed, unless another live
// process may be at work on them, and parts that no checkpoint has. `saving` is about to have its
// own. A file that cannot be deleted causes a warning.
void remove_leftovers(FileSystem& fs, Clock& clock, const std::string& model_dir,
                      const Checkpoint& saving);

// Of the files `names` in the directory, the checkpoints "model.ckpt-120" of saves that were killed
// between the file and the list of checkpoints, `state`: the list does not name them, they are
// newer than its newest, and they were written after it. One that somebody removed from the list by
// hand is not among them, because the list is younger.
std::vector<std::string> interrupted_saves(FileSystem& fs, const std::string& model_dir,
                                           const std::set<std::string>& names,
                                           const CheckpointState& state);

// Deletes the checkpoint "model.ckpt-120", its file first, then its parts. Returns the file
// system's status for the file.
Status remove_checkpoint(FileSystem& fs, const std::string& model_dir, const std::string& name);

}  // namespace muster::inline v0_1::internal
