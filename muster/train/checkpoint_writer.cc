#include "muster/train/checkpoint_writer.h"

#include <chrono>
#include <utility>

#include "muster/base/uri.h"
#include "muster/files/file_systems.h"
#include "muster/files/shared_patience.h"

namespace muster::inline v0_1 {

CheckpointWriter::CheckpointWriter(const std::string& model_dir,
                                   const CheckpointManagerOptions& options,
                                   const std::function<bool()>& cancelled)
    : checkpoints_(std::in_place, model_dir, options) {
  checkpoints_->ensure_writable();
  if (is_remote(model_dir)) {
    claim_.emplace(model_dir, options.fs != nullptr ? *options.fs : file_systems(), cancelled);
  } else if (options.fs == nullptr) {
    lock_.emplace(model_dir, std::chrono::seconds(10), cancelled);
  }
}

void CheckpointWriter::check() const {
  if (lock_) lock_->check();
  if (claim_) claim_->check();
}

std::string CheckpointWriter::save(const Checkpoint& checkpoint) {
  const SharedPatience patience;
  check();
  return checkpoints_->save(checkpoint);
}

void CheckpointWriter::set_options(const CheckpointManagerOptions& options) {
  checkpoints_.emplace(std::string(checkpoints_->model_dir()), options);
}

}  // namespace muster::inline v0_1
