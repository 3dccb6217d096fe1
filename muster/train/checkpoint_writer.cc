#include "muster/train/checkpoint_writer.h"

#include <chrono>

namespace muster::inline v0_1 {

CheckpointWriter::CheckpointWriter(const std::string& model_dir,
                                   const CheckpointManagerOptions& options,
                                   const std::function<bool()>& cancelled)
    : checkpoints_(model_dir, options) {
  checkpoints_.ensure_writable();
  if (options.fs == nullptr) lock_.emplace(model_dir, std::chrono::seconds(10), cancelled);
}

std::string CheckpointWriter::save(const Checkpoint& checkpoint) {
  if (lock_) lock_->check();
  return checkpoints_.save(checkpoint);
}

}  // namespace muster::inline v0_1
