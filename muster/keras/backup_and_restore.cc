#include "muster/keras/backup_and_restore.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/train/failed_saves.h"

namespace muster::inline v0_1::keras {

BackupAndRestore::BackupAndRestore(std::string backup_dir, BackupAndRestoreOptions options)
    : backup_dir_(std::move(backup_dir)), options_(options) {
  if (backup_dir_.empty()) {
    throw invalid_argument("BackupAndRestore: backup_dir is empty", "give it its own folder");
  }
  if (options_.save_freq && *options_.save_freq < 1) {
    throw invalid_argument(fmt::format("BackupAndRestore: save_freq is {}; it must be at least 1",
                                       *options_.save_freq),
                           "omit it to save after each epoch");
  }
  check_max_failed_saves(options_.max_failed_saves, "BackupAndRestoreOptions.max_failed_saves");
}

CallbackNeeds BackupAndRestore::needs() const {
  return {.backups = Backups{.backup_dir = backup_dir_, .options = options_}};
}

}  // namespace muster::inline v0_1::keras
