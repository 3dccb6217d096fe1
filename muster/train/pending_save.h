// A save that a thread writes while the run makes further steps. Each replica of the run has one
// and knows whether a save is in flight. The chief handles the result on the run's thread, and all
// replicas learn it when they settle the save. Thread safety: belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "muster/base/export.h"
#include "muster/distribute/replica.h"
#include "muster/train/checkpoint_writer.h"
#include "muster/train/failed_saves.h"

namespace muster::inline v0_1 {

// What a save writes: a checkpoint, and what the thread that writes it has to add first.
struct CheckpointInParts {
  // Implicit: most checkpoints are whole.
  CheckpointInParts(Checkpoint whole, RestOfCheckpoint rest_of_it = {})
      : checkpoint(std::move(whole)), rest(std::move(rest_of_it)) {}

  Checkpoint checkpoint;
  RestOfCheckpoint rest;
};

class MUSTER_PART_EXPORT PendingSave {
 public:
  // --- each replica by itself ---
  // A save begins. `writer` is nullptr on all replicas except the chief, and outlives this object.
  // On the chief `make` is called and returns the checkpoint, whose tensors nobody changes; `saved`
  // is called with the prefix when the checkpoint is written. `may_fail` counts failures; nullptr,
  // on all replicas: none may fail. Throws the errors of CheckpointWriter::check(), and the errors
  // of `make` unless `may_fail` allows them. `in_parts`: other processes write parts of it; if one
  // is lost, the save is abandoned, which is no failure. REQUIRES: !any().
  void begin(CheckpointWriter* writer, const std::function<CheckpointInParts()>& make,
             std::function<void(const std::string& prefix)> saved, FailedSaves* may_fail,
             bool in_parts = false);
  // This replica writes a part of the save of `step` that begins: a thread calls `write`, after the
  // part before is written. The thread may outlive the save.
  void write_part(int64_t step, std::function<void()> write);
  // Another replica than the chief takes part in a run whose save is in flight. REQUIRES: !any().
  void expect(bool may_fail);
  // The group in which the save began has ended, and another one goes on. The chief's thread writes
  // on, if it needs no part of a worker any more; another replica forgets the save.
  void leave_group(bool is_chief);
  // Whether the save needs the group in which it began, since others write parts of it.
  bool needs_group() const { return needs_group_; }
  // `saved` is called from now on when the checkpoint is written.
  void call_when_saved(std::function<void(const std::string& prefix)> saved) {
    saved_ = std::move(saved);
  }
  // Whether the replicas tell each other if it succeeded: it may fail, or be abandoned.
  bool patient() const { return patient_; }
  // Whether a save has begun that the replicas have not settled.
  bool any() const { return any_; }
  // Whether a thread writes, or nobody has handled its result; false on replicas that are not the
  // chief.
  bool is_writing() const { return writer_ != nullptr; }
  // Whether the thread has ended, and nobody has handled the result.
  bool is_done() const { return writer_ != nullptr && writer_->is_done(); }
  // If the thread has ended, handles the result: calls `saved`, or throws the error unless
  // `may_fail` allows it. Call it between two steps; it costs a look at a flag.
  void look();
  // The same, after waiting for the thread. Returns the prefix; "" if the save failed, and on
  // replicas that are not the chief.
  std::string await();

  // --- all replicas together ---
  // Waits for the save, and returns whether it succeeded; nothing if there is none. The other
  // replicas wait for the chief at a barrier. If that takes longer than half a second, the log says
  // so: `waiter` is "the save of step 200". Throws what look() throws.
  std::optional<bool> settle(distribute::Replica& replica, const std::string& waiter);

  // How often settle() had to wait for the thread, on the chief.
  int64_t waits() const { return waits_; }

 private:
  bool any_ = false;
  bool patient_ = false;
  bool in_parts_ = false, needs_group_ = false;
  CheckpointWriter* writer_ = nullptr;  // on the chief, until the result is handled
  int64_t step_ = 0;                    // on the chief
  std::function<void(const std::string& prefix)> saved_{};
  FailedSaves* may_fail_ = nullptr;
  std::string prefix_;  // on the chief, of the save if it succeeded
  int64_t waits_ = 0;
  std::future<std::string> part_;  // the last member: its destructor waits for the thread
};

}  // namespace muster::inline v0_1
