// A fit() that was stopped, by Ctrl-C, a failure or a lost worker, goes on where it stood when the
// same command is started again: at the next example, with the bits of a run that was not stopped.
// Thread safety: as Callback.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/keras/callback.h"

namespace muster::inline v0_1::keras {

// Options of BackupAndRestore.
struct BackupAndRestoreOptions {
  // Steps between two backups; unset: behind each epoch.
  std::optional<int64_t> save_freq = {};
  // Whether the backup is deleted when fit() ends as it should.
  bool delete_checkpoint = true;
};

// Goes into FitOptions::callbacks, once. On a cluster fit() has one by itself, in
// "muster_backup/<name of the model>" below the working directory. The chief writes: weights,
// slots, the place in the data, and what callbacks remember. All workers need to call fit() with
// one. With parameter servers there is a backup before the first step and behind each epoch as
// well, servers write their part where they see the folder, and the data begins anew where a run
// goes on. Where a backup stands behind the last of FitOptions::epochs, or behind more, fit() has
// the weights and the History of the backup and trains nothing; one in the middle of a later epoch
// is refused with InvalidArgument.
class BackupAndRestore : public Callback {
 public:
  // Throws InvalidArgument for an empty directory and for save_freq < 1.
  explicit BackupAndRestore(std::string backup_dir, BackupAndRestoreOptions options = {});

  const std::string& backup_dir() const { return backup_dir_; }
  const BackupAndRestoreOptions& options() const { return options_; }

 private:
  const std::string backup_dir_;
  const BackupAndRestoreOptions options_;
};

}  // namespace muster::inline v0_1::keras
