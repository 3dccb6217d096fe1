#include "muster/train/run_saves.h"

#include <utility>

#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {

RunSaves::RunSaves(RunSavesOptions options, distribute::Replica& replica, const Pace& pace,
                   Clock& clock, int64_t step)
    : options_(std::move(options)),
      replica_(replica),
      pace_(pace),
      timer_(options_.every_steps, options_.every_seconds, clock, step),
      failed_saves_(most_failed_saves(options_.max_failed_saves, options_.model_dir),
                    "RunConfig.max_failed_saves") {}

CheckpointManager RunSaves::checkpoints() const {
  return CheckpointManager(options_.model_dir, options_.manager);
}

void RunSaves::open() {
  if (!enabled() || !replica_.is_chief()) return;
  writer_.emplace(
      options_.model_dir, options_.manager,
      options_.cancelled ? options_.cancelled : [] { return stop_signal() != 0; });
}

void RunSaves::agree_on_patience() {
  if (enabled()) failed_saves_.take_chiefs_limit(replica_.group(), replica_.is_chief());
}

Saved RunSaves::save(bool must, const std::function<Saved(FailedSaves* may_fail)>& write,
                     const std::function<int64_t()>& step) {
  const Saved made = write(must || !failed_saves_.patient() ? nullptr : &failed_saves_);
  if (made.saved) {
    timer_.saved(step());
    saved_ = true;
  } else {
    timer_.failed(step());
  }
  return made;
}

}  // namespace muster::inline v0_1
