// The one writer of a model_dir, for as long as a run goes on.
// Thread safety: as CheckpointManager.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "muster/checkpoint/directory_lock.h"
#include "muster/checkpoint/manager.h"

namespace muster::inline v0_1 {

class CheckpointWriter {
 public:
  // Proves that the directory can be written, and locks it against other programs; a file system
  // that is not the local one locks in its own way, or not. Throws what
  // CheckpointManager::ensure_writable() and DirectoryLock throw.
  explicit CheckpointWriter(const std::string& model_dir,
                            const CheckpointManagerOptions& options = {},
                            const std::function<bool()>& cancelled = {});

  // As CheckpointManager::save(). Throws Unavailable as well when the directory was replaced since.
  std::string save(const Checkpoint& checkpoint);

 private:
  CheckpointManager checkpoints_;
  std::optional<DirectoryLock> lock_;
};

}  // namespace muster::inline v0_1
