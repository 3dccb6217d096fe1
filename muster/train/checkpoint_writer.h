// The one writer of a model_dir, for as long as a run lasts. Thread safety: as CheckpointManager.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/checkpoint/directory_lock.h"
#include "muster/checkpoint/manager.h"
#include "muster/checkpoint/store_claim.h"

namespace muster::inline v0_1 {

class MUSTER_PART_EXPORT CheckpointWriter {
 public:
  // Proves that the directory can be written, and locks it against other programs: by the operating
  // system on a disk, by a lease in a store; a file system that was given for plain paths locks in
  // its own way, or not. Throws the errors of CheckpointManager::ensure_writable(), DirectoryLock
  // and StoreClaim.
  explicit CheckpointWriter(const std::string& model_dir,
                            const CheckpointManagerOptions& options = {},
                            const std::function<bool()>& cancelled = {});

  // Which checkpoints are kept, from the next save on; of the same file system.
  void set_options(const CheckpointManagerOptions& options);
  // The prefixes of the checkpoints there are, oldest first.
  std::vector<std::string> all() const { return checkpoints_->all(); }
  // Throws Unavailable when the directory was replaced since, or another program has taken it.
  void check() const;
  // As CheckpointManager::save(), after check().
  std::string save(const Checkpoint& checkpoint);

 private:
  std::optional<CheckpointManager> checkpoints_;  // always set
  std::optional<DirectoryLock> lock_;
  std::optional<StoreClaim> claim_;
};

}  // namespace muster::inline v0_1
