// The checkpoints of one model directory: saves them, keeps as many as asked, and finds the newest
// good one. Thread safety: save() and the loads belong to one thread at a time; pin() and dropping
// a pin are safe from any thread.
//
// A checkpoint is whole or absent, whatever is killed and whenever: its file is committed first,
// after its parts if it has any, then the text file `checkpoint` is replaced so that it names it,
// and only then the checkpoints that it no longer names are deleted, parts last. Checkpoints that a
// lease of another process keeps (muster/checkpoint/lease.h) stay until the process releases them,
// or is dead.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/checkpoint_reader.h"

namespace muster::inline v0_1 {

class LeasedCheckpoints;

namespace internal {
struct CheckpointState;
}

// Which checkpoints are kept.
struct CheckpointManagerOptions {
  FileSystem* fs = nullptr;  // nullptr: the file system of the path; otherwise it must outlive the
                             // manager
  Clock* clock = nullptr;    // nullptr: the system's; otherwise it must outlive the manager
  // The newest ones to keep; 0 keeps all.
  int keep_checkpoint_max = 5;
  // One checkpoint is kept for good per this number of hours when it leaves the newest; 0 keeps
  // none. The default means never.
  double keep_checkpoint_every_n_hours = 10000;
  // Called for each checkpoint that is no longer among the newest, before its file is deleted, and
  // again at each save as long as it stays: whether that prefix is to stay, for example as one of
  // the best. A run no longer continues from such a file. Unset: none stays.
  std::function<bool(const std::string& prefix)> keep = {};
};

// Saves, keeps and finds the checkpoints of one directory.
class MUSTER_PART_EXPORT CheckpointManager {
 public:
  // A checkpoint and its place.
  struct Loaded {
    std::string prefix{};
    Checkpoint checkpoint{};
    std::vector<std::string> skipped{};  // the fault of each newer one that was skipped
  };
  // Keeps the file of one checkpoint from being deleted by this manager until it is dropped; it may
  // outlive the manager.
  using Pin = std::shared_ptr<const void>;

  // Opens and reads nothing yet: several may look at one directory, but only one may save into it.
  // Throws InvalidArgument for an empty directory or negative limits.
  explicit CheckpointManager(std::string model_dir, CheckpointManagerOptions options = {});
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  // Creates the directory and proves that files can be written there, so that a run fails before it
  // trains and not at its first save. Throws InvalidArgument naming the directory, also if the disk
  // is full; for a bucket, the store's error.
  void ensure_writable();

  // Saves under "<model_dir>/model.ckpt-<global_step>", replacing an earlier checkpoint of that
  // step, and returns that prefix. Parts that the checkpoint names must exist; if it cannot be
  // saved, they are deleted. Throws the errors of write_checkpoint, with the hint that the
  // checkpoints before this one are still good. A file that cannot be deleted afterwards causes a
  // warning, and is tried again at the next save.
  std::string save(const Checkpoint& checkpoint);

  // Deletes checkpoints that are no longer among the newest and that nothing holds any more. Call
  // it after a release if no save follows; save() does the same.
  void tidy();

  // The prefix of the newest checkpoint that exists, nullopt when there is none. The state file
  // decides; when it is missing or damaged, or names nothing that exists, the directory does, with
  // a warning.
  std::optional<std::string> latest() const;
  // Prefixes, oldest first.
  std::vector<std::string> all() const;
  // These, and before them, by step, older ones whose files exist for another reason: pinned, one
  // of the best, kept for good.
  std::vector<std::string> existing() const;

  // Throws the errors of read_checkpoint.
  Checkpoint load(const std::string& prefix_or_path) const;
  // Opens a checkpoint that is read piece by piece. Throws the errors of open_checkpoint.
  std::unique_ptr<CheckpointReader> open(const std::string& prefix_or_path) const;
  // The newest good one, nullopt if there is none at all. A damaged or missing one is reported by a
  // warning with the reason, and the one before it is used. Throws Corrupt listing each if all are
  // damaged; errors that are not damage (permissions, a newer format) are thrown, not skipped.
  std::optional<Loaded> load_latest() const;
  // Returns the prefix of the newest good checkpoint, for callers that read it in other ways than
  // load(): `read` is called with prefixes, the newest first, until it throws neither Corrupt nor
  // NotFound. Warns and throws as load_latest() does.
  std::optional<std::string> find_latest(
      const std::function<void(const std::string& prefix)>& read) const;

  // Throws NotFound when there is no such checkpoint (any more).
  Pin pin(const std::string& prefix) const;

  const std::string& model_dir() const { return model_dir_; }

 private:
  struct Pins;
  struct Listing;
  Listing list() const;
  // Implements find_latest(); `skipped` is Loaded::skipped.
  std::optional<std::string> find_latest(const std::function<void(const std::string& prefix)>& read,
                                         std::vector<std::string>* skipped) const;
  // Names of older files than the newest that the state file does not name, by step.
  static std::vector<std::string> unnamed(const Listing& listing);
  void drop_foreign_names(internal::CheckpointState* state) const;
  std::optional<internal::CheckpointState> read_state(const Listing& listing,
                                                      std::string* why) const;
  internal::CheckpointState state_of_files(const Listing& listing) const;
  std::vector<std::string> add_latest(const std::string& name,
                                      internal::CheckpointState* state) const;
  Error save_failed(const std::string& prefix, const Error& error,
                    const internal::CheckpointState& before) const;
  std::string path_of(const std::string& name) const;
  // Deletes the checkpoints that neither a pin nor a lease holds; returns the others.
  std::vector<std::string> remove_retired(const std::vector<std::string>& retired) const;

  std::string model_dir_;
  CheckpointManagerOptions options_;
  FileSystem& fs_;
  Clock& clock_;
  std::shared_ptr<Pins> pins_;
  const std::unique_ptr<LeasedCheckpoints> leased_;
};

}  // namespace muster::inline v0_1
