// The checkpoints of one model directory: saves them, keeps as many as asked, and finds the newest
// good one. Thread safety: save() and the loads belong to one thread at a time; pin() and dropping
// a pin are safe from any thread.
//
// A checkpoint is whole or absent, whatever is killed and whenever: its file is committed first,
// after its parts where it has any, then the text file `checkpoint` is replaced so that it names
// it, and only then are those it no longer names deleted, parts last. Those that a lease of another
// process keeps (muster/checkpoint/lease.h) stay until it releases them, or is dead.
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
  FileSystem* fs = nullptr;  // nullptr: that of the path; otherwise it must outlive the manager
  Clock* clock = nullptr;    // nullptr: the system's; otherwise it must outlive the manager
  // The newest ones to keep; 0 keeps all.
  int keep_checkpoint_max = 5;
  // Of those that leave the newest, one is kept for good every so many hours; 0 keeps none. The
  // default means never.
  double keep_checkpoint_every_n_hours = 10000;
  // Asked of each one that leaves the newest, before its file is deleted, and again at each save as
  // long as it stays: whether that prefix is to stay, for being one of the best, say. Such a file
  // is no longer one that a run continues from. Unset: none does.
  std::function<bool(const std::string& prefix)> keep = {};
};

// Saves, keeps and finds the checkpoints of one directory.
class MUSTER_PART_EXPORT CheckpointManager {
 public:
  // A checkpoint and where it was found.
  struct Loaded {
    std::string prefix{};
    Checkpoint checkpoint{};
    std::vector<std::string> skipped{};  // what is wrong with each newer one that was passed over
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
  // trains and not at its first save. Throws InvalidArgument naming the directory, also when the
  // disk is full; of a bucket, what the store says.
  void ensure_writable();

  // Saves under "<model_dir>/model.ckpt-<global_step>", replacing what was saved at that step
  // before, and returns that prefix. Parts that the checkpoint names must be there; when it cannot
  // be saved, they are deleted. Throws what write_checkpoint throws, with the hint that the
  // checkpoints before this one are still good. What cannot be deleted afterwards is a warning, and
  // is tried again at the next save.
  std::string save(const Checkpoint& checkpoint);

  // Deletes those that left the newest and that nothing holds any more. Call it after releasing one
  // when no save follows; save() does the same.
  void tidy();

  // The prefix of the newest checkpoint that exists, nullopt when there is none. The state file
  // decides; when it is missing or damaged, or names nothing that exists, the directory does, with
  // a warning.
  std::optional<std::string> latest() const;
  // Prefixes, oldest first.
  std::vector<std::string> all() const;
  // These, and before them, by step, older ones whose files are there for another reason: pinned,
  // one of the best, kept for good.
  std::vector<std::string> existing() const;

  // Throws what read_checkpoint throws.
  Checkpoint load(const std::string& prefix_or_path) const;
  // For reading it piece by piece. Throws what open_checkpoint throws.
  std::unique_ptr<CheckpointReader> open(const std::string& prefix_or_path) const;
  // The newest good one, nullopt when there is none at all. One that is damaged or gone is reported
  // by a warning that says what is wrong, and the one before it is used. Throws Corrupt listing
  // each when all are damaged; errors that are not damage (permissions, a newer format) are thrown,
  // not skipped.
  std::optional<Loaded> load_latest() const;
  // Returns the prefix of the newest good one, for other ways of reading than load(): `read` is
  // called with prefixes, the newest first, until it throws neither Corrupt nor NotFound. Warns and
  // throws as load_latest() does.
  std::optional<std::string> find_latest(
      const std::function<void(const std::string& prefix)>& read) const;

  // Throws NotFound when there is no such checkpoint (any more).
  Pin pin(const std::string& prefix) const;

  const std::string& model_dir() const { return model_dir_; }

 private:
  struct Pins;
  struct Listing;
  Listing list() const;
  // What find_latest() does; `skipped` is Loaded::skipped.
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
  // Deletes what neither a pin nor a lease holds; what stays is returned.
  std::vector<std::string> remove_retired(const std::vector<std::string>& retired) const;

  std::string model_dir_;
  CheckpointManagerOptions options_;
  FileSystem& fs_;
  Clock& clock_;
  std::shared_ptr<Pins> pins_;
  const std::unique_ptr<LeasedCheckpoints> leased_;
};

}  // namespace muster::inline v0_1
