// A fit() that was stopped, by Ctrl-C, a failure or a lost worker, goes on where it stood when the
// same command is started again: at the next example, with the bits of a run that was not stopped.
// Thread safety: as Callback.
#pragma once

#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/keras/callback.h"

namespace muster::inline v0_1::keras {

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
  CallbackNeeds needs() const override;

 private:
  const std::string backup_dir_;
  const BackupAndRestoreOptions options_;
};

}  // namespace muster::inline v0_1::keras
