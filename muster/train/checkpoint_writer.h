// The one writer of a model_dir, for as long as a run continues.
// Thread safety: as CheckpointManager.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/base/result.h"
#include "muster/checkpoint/directory_lock.h"
#include "muster/checkpoint/manager.h"
#include "muster/checkpoint/store_claim.h"

namespace muster::inline v0_1 {

// Adds what a checkpoint still lacks, on the thread that writes it. An error that it returns is
// that of a save that failed. An error that it throws ends the run, whatever saves may fail.
using RestOfCheckpoint = std::function<Status(Checkpoint& checkpoint)>;

// Writes what belongs next to a checkpoint, before the checkpoint is written, and may change the
// notes that the checkpoint will have.
using BeforeSave = std::function<void(std::map<std::string, std::string>& notes)>;

class MUSTER_PART_EXPORT CheckpointWriter {
 public:
  // Proves that the directory can be written, and locks it against other programs: by the operating
  // system on a disk, by a lease in a store; a file system that was given for plain paths locks in
  // its own way, or not. Throws what CheckpointManager::ensure_writable(), DirectoryLock and
  // StoreClaim throw.
  explicit CheckpointWriter(const std::string& model_dir,
                            const CheckpointManagerOptions& options = {},
                            const std::function<bool()>& cancelled = {});
  // Waits for a save that begin() began, and logs its failure.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Which checkpoints are kept, from the next save on; of the same file system.
  void set_options(const CheckpointManagerOptions& options);
  // The prefixes of the checkpoints there are, oldest first.
  std::vector<std::string> all() const { return checkpoints_->all(); }
  // Throws Unavailable when the directory was replaced since, or another program has taken it.
  void check() const;
  // As CheckpointManager::save(), after check().
  std::string save(const Checkpoint& checkpoint);

  // Begins the same save on a thread of its own, and returns. The values of the tensors must not
  // change until finish(), and no other call is allowed before it except is_done(). The thread has
  // a low priority: the steps of the run come first. The thread calls `rest` before it writes, and
  // drops it when the checkpoint is written, or the save has failed.
  void begin(Checkpoint checkpoint, RestOfCheckpoint rest = {});
  // Whether finish() returns at once.
  bool is_done() const { return is_done_within(Seconds(0)); }
  // The same, after waiting for that at most so long.
  bool is_done_within(Seconds time) const;
  // Waits for the save. Returns what save() returns, and throws what it throws.
  std::string finish();
  // Whether the last finish() threw what `rest` threw.
  bool rest_failed() const { return rest_failed_; }

 private:
  std::optional<CheckpointManager> checkpoints_;  // always set
  std::optional<DirectoryLock> lock_;
  std::optional<StoreClaim> claim_;
  std::atomic<bool> rest_failed_ = false;  // with what ends the run
  std::future<std::string> begun_;         // the last member: its destructor waits for the thread
};

namespace internal {

// Calls `write` on a thread of its own, which has a low priority and is shown as the one that saves
// `step`. The future has what it returns or throws; its destructor waits for the thread.
MUSTER_PART_EXPORT std::future<std::string> write_aside(int64_t step,
                                                        std::function<std::string()> write);

// Waits at most half a second for `done_within` to be true. If it is not, the log says that
// `waiter`, "the save of step 200", waits for the save of `step`. `waits` counts the calls that had
// to wait.
MUSTER_PART_EXPORT void tell_if_it_waits(const std::function<bool(Seconds)>& done_within,
                                         const std::string& waiter, int64_t step, int64_t* waits);

// Gives this thread a low priority, for as long as it lives. Threads that compute a step wait for
// each other, so one that shares its core with the save would delay them all. If the core is idle,
// the save is as fast as ever.
void yield_to_steps();

}  // namespace internal

}  // namespace muster::inline v0_1
