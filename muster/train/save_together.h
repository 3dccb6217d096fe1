// How a run saves, whatever drives it: which process may write, what a failed save is, and that all
// replicas know whether it succeeded. Estimators, loops written by hand, scheduled calls and
// boosted trees save by this. Thread safety: one thread for each replica.
#pragma once

#include <functional>
#include <string>

#include "muster/base/export.h"
#include "muster/distribute/replica.h"
#include "muster/train/checkpoint_writer.h"
#include "muster/train/failed_saves.h"

namespace muster::inline v0_1 {

// The result of a save, on each replica.
struct Saved {
  bool saved = true;     // the same on all replicas; false only where a save may fail
  std::string prefix{};  // of the checkpoint, on the chief if it was written; else ""
};

// Saves; all replicas call this together, and wait for the chief at a barrier, not in a collective,
// however long that takes. On the chief `write` is called with the result of `writer`, and returns
// the prefix; then `saved`, if given, is called with that. `may_fail` counts the failures on the
// chief, and forgets them after a save; it is nullptr, on all replicas, if a save that fails ends
// the run. Throws the errors of `writer` and `write`, unless `may_fail` allows them, and the errors
// of CheckpointWriter::check(): a run that lost its directory must not write there any more.
MUSTER_PART_EXPORT Saved save_together(distribute::Replica& replica,
                                       const std::function<CheckpointWriter&()>& writer,
                                       const std::function<std::string(CheckpointWriter&)>& write,
                                       const std::function<void(const std::string& prefix)>& saved,
                                       FailedSaves* may_fail);

}  // namespace muster::inline v0_1
