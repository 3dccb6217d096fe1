#include "muster/train/checkpoint_writer.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/base/uri.h"
#include "muster/files/file_systems.h"
#include "muster/files/shared_patience.h"

namespace muster::inline v0_1 {
namespace {

// Threads that compute a step wait for each other, so one that shares its core with the save would
// delay them all. If the core is idle, the save is as fast as ever.
void yield_to_steps() {
  constexpr int kNice = 10;
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

}  // namespace

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

CheckpointWriter::~CheckpointWriter() {
  if (!begun_.valid()) return;
  // The run ends with an error of its own. The checkpoint is good: it is of an earlier step.
  try {
    log::info("the checkpoint that was being written is there: " + finish());
  } catch (...) {
    log::warning(current_error().message());
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

void CheckpointWriter::begin(Checkpoint checkpoint) {
  begun_ = std::async(std::launch::async, [this, checkpoint = std::move(checkpoint)] {
    yield_to_steps();
    return save(checkpoint);
  });
}

bool CheckpointWriter::is_done_within(Seconds time) const {
  return !begun_.valid() || begun_.wait_for(time) == std::future_status::ready;
}

std::string CheckpointWriter::finish() { return begun_.get(); }

void CheckpointWriter::set_options(const CheckpointManagerOptions& options) {
  checkpoints_.emplace(std::string(checkpoints_->model_dir()), options);
}

}  // namespace muster::inline v0_1
