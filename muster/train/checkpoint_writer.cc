#include "muster/train/checkpoint_writer.h"

#include <fmt/format.h>
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
#include "muster/plan/save_in_flight.h"

namespace muster::inline v0_1 {

void internal::yield_to_steps() {
  constexpr int kNice = 10;
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

std::future<std::string> internal::write_aside(int64_t step, std::function<std::string()> write) {
  return std::async(std::launch::async, [step, write = std::move(write)] {
    yield_to_steps();
    const plan::SaveInFlight shown(step);
    return write();
  });
}

void internal::tell_if_it_waits(const std::function<bool(Seconds)>& done_within,
                                const std::string& waiter, int64_t step, int64_t* waits) {
  constexpr Seconds kWorthReading{0.5};
  if (done_within(Seconds(0))) return;
  ++*waits;
  if (done_within(kWorthReading)) return;
  log::event("save_waits", {{"global_step", step}, {"waits", *waits}},
             fmt::format("{} waits for the checkpoint of step {}, which is still being written "
                         "(wait {} of this run)",
                         waiter, step, *waits));
}

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

void CheckpointWriter::begin(Checkpoint checkpoint, RestOfCheckpoint rest) {
  rest_failed_ = false;
  const int64_t step = checkpoint.global_step;
  begun_ = internal::write_aside(
      step, [this, checkpoint = std::move(checkpoint), rest = std::move(rest)]() mutable {
        // The thread drops it, not finish().
        const RestOfCheckpoint own = std::exchange(rest, {});
        if (own) {
          const Status added = [&] {
            try {
              return own(checkpoint);
            } catch (...) {
              rest_failed_ = true;
              throw;
            }
          }();
          if (!added.ok()) throw added.error();
        }
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
