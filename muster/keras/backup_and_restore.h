// A fit() that was stopped, by Ctrl-C, a failure or a lost worker, goes on where it stood when the
// same command is started again: at the next example, with the bits of a run that was not stopped.
// Thread safety: as Callback.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/keras/callback.h"

namespace muster::inline v0_1::keras {

// Options of BackupAndRestore.
struct BackupAndRestoreOptions {
  // Steps between two backups; unset: behind each epoch.
  std::optional<int64_t> save_freq = {};
  // Whether the backup is deleted when fit() ends as it should.
  bool delete_checkpoint = true;
  // So many backups in a row may fail, and fit() goes on and tries again with the next; one more
  // ends it. The first must not fail, nor one for a task that was told to stop, nor the last where
  // it stays. Unset: 2 where backup_dir is in a bucket, 0 on a disk. 0 or more; the same on all
  // workers. With parameter servers a chief that is killed after backups that failed goes on in the
  // epoch where the servers are: the epochs since the backup are in no History, and no callback
  // sees them end.
  std::optional<int64_t> max_failed_saves = {};
};

// Goes into FitOptions::callbacks, once. On a cluster fit() has one by itself, in
// "backup-<name of the model>" below the directory of the job, which run_main() knows from
// --model_dir or --job-dir; without such a directory it has none, and on parameter servers throws
// InvalidArgument. The chief writes: weights, slots, the place in the data, and what callbacks
// remember. All workers need to call fit() with one.
//
// A backup holds what began it: the job's directory, the model's name, seed and layers (where they
// are known before they are called), the optimizer, losses, metrics, data, steps_per_epoch,
// initial_epoch, class_weight, accumulate_steps and mixed_precision. fit() throws InvalidArgument
// that lists what differs where another run finds it, and leaves it as it is. When fit() ends as it
// should, the folders go that were made around backup_dir and have nothing in them. With parameter
// servers there is a backup before the first step and behind each epoch as well, servers write
// their part where they see the folder, and the data begins anew where a run goes on. Where a
// backup stands behind the last of FitOptions::epochs, or behind more, fit() has the weights and
// the History of the backup and trains nothing; one in the middle of a later epoch is refused with
// InvalidArgument.
class MUSTER_EXPORT BackupAndRestore : public Callback {
 public:
  // Throws InvalidArgument for an empty directory, save_freq < 1 and max_failed_saves < 0.
  explicit BackupAndRestore(std::string backup_dir, BackupAndRestoreOptions options = {});

  const std::string& backup_dir() const { return backup_dir_; }
  const BackupAndRestoreOptions& options() const { return options_; }

 private:
  const std::string backup_dir_;
  const BackupAndRestoreOptions options_;
};

}  // namespace muster::inline v0_1::keras
