// Lets a fit() that was stopped, by Ctrl-C, a failure or a lost worker, continue when the same
// command is started again: at the next example, with the same bits as a run that was not stopped.
// Thread safety: as Callback.
#pragma once

#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/keras/callback.h"

namespace muster::inline v0_1::keras {

// Add it to FitOptions::callbacks, once. On a cluster fit() adds one itself, with the folder
// "backup-<name of the model>" in the directory of the job, which run_main() takes from --model_dir
// or --job-dir. Without such a directory it adds none; on parameter servers it then throws
// InvalidArgument. The chief writes weights, slots, the position in the data, and the state of
// callbacks. All workers must call fit() with one.
//
// A backup records the run that began it: the job's directory, the model's name, seed and layers
// (if known before the first call), the optimizer, losses, metrics, data, steps_per_epoch,
// initial_epoch, class_weight, accumulate_steps and mixed_precision. If another run finds it, fit()
// throws InvalidArgument with the differences, and keeps the backup. When fit() ends normally, it
// removes the folders that it made for backup_dir and that are empty.
//
// With parameter servers there is also a backup before the first step and after each epoch, servers
// that can access the folder write their own parts, and a continued run begins its data again. If a
// backup is at or after the last of FitOptions::epochs, fit() takes the weights and the History of
// the backup and trains nothing; a backup in the middle of a later epoch is refused with
// InvalidArgument.
class MUSTER_EXPORT BackupAndRestore : public Callback {
 public:
  // Throws InvalidArgument for an empty directory, save_freq < 1 and max_failed_saves < 0.
  explicit BackupAndRestore(std::string backup_dir, BackupAndRestoreOptions options = {});

  const std::string& backup_dir() const { return backup_dir_; }
  const BackupAndRestoreOptions& options() const { return options_; }
  CallbackNeeds needs() const override;

 private:
  const std::string backup_dir_;
  const BackupAndRestoreOptions options_;
};

}  // namespace muster::inline v0_1::keras
