// Deletes files of checkpoints in a model_dir: those of one that is not kept, and what saves have
// left that were stopped.
// Thread safety: free functions; only one may save into a directory meanwhile, and not during
// remove_leftovers().
#pragma once

#include <string>

#include "muster/base/clock.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"
#include "muster/checkpoint/checkpoint.h"

namespace muster::inline v0_1::internal {

// Deletes files of a save that was stopped: those that were not committed, unless another live
// process may be at work on them, and parts that no checkpoint has. `saving` is about to have its
// own. What cannot be deleted is a warning.
void remove_leftovers(FileSystem& fs, Clock& clock, const std::string& model_dir,
                      const Checkpoint& saving);

// Deletes the checkpoint "model.ckpt-120", its file first, then its parts. Returns what the file
// system says of the former.
Status remove_checkpoint(FileSystem& fs, const std::string& model_dir, const std::string& name);

}  // namespace muster::inline v0_1::internal
