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
#include "muster/train/pending_save.h"

namespace muster::inline v0_1 {

// The result of a save, on each replica.
struct Saved {
  bool saved = true;     // the same on all replicas; false only where a save may fail
  std::string prefix{};  // of the checkpoint, on the chief if it was written; else ""
  // Set on the chief if a thread still writes the checkpoint: waits for it, and returns the prefix;
  // "" if the save failed.
  std::function<std::string()> await{};
};

// How a save is made; the same on all replicas.
struct SaveWay {
  // Counts the failures on the chief, and forgets them after a save. nullptr: a save that fails
  // ends the run.
  FailedSaves* may_fail = nullptr;
  // Where the save is noted that a thread of the chief writes while the run continues. nullptr: all
  // replicas wait until the checkpoint is written.
  PendingSave* aside = nullptr;
  // Later saves will be made by a thread: the memory for their copy is made ready meanwhile.
  bool prepares = false;
  // With `aside`: other processes write parts of it, too.
  bool in_parts = false;
};

// Saves; all replicas call this together. On the chief `make` returns the checkpoint, and `saved`,
// if given, is called with the prefix when the checkpoint is written. Without SaveWay::aside the
// other replicas wait for the chief at a barrier, not in a collective, however long that takes.
// With it nobody waits, and Saved::saved is true until the replicas settle the save. Throws the
// errors of `writer`, `make` and CheckpointWriter::save(), unless `may_fail` allows them, and the
// errors of CheckpointWriter::check(): a run that lost its directory must not write there any more.
MUSTER_PART_EXPORT Saved save_together(distribute::Replica& replica,
                                       const std::function<CheckpointWriter&()>& writer,
                                       const std::function<CheckpointInParts()>& make,
                                       const std::function<void(const std::string& prefix)>& saved,
                                       const SaveWay& way);

namespace internal {

// Calls `work`, a part of a save on the chief. Returns false if it failed and `may_fail` allows it,
// which never holds for what RestOfCheckpoint has thrown.
bool saved_or_counted(CheckpointWriter& writer, FailedSaves* may_fail,
                      const std::function<void()>& work);
// Whether the chief has saved; all replicas learn it. If no save may fail (`patient`: false), they
// only meet: the chief has thrown, or has saved.
bool agree_on_saved(distribute::Replica& replica, bool saved, bool patient);

}  // namespace internal

}  // namespace muster::inline v0_1
