#include "muster/train/run_saves.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {

using distribute::Phase;

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

Saved RunSaves::save(const How& how, const std::function<Saved(const SaveWay& way)>& write,
                     const std::function<int64_t()>& step) {
  settle(fmt::format("the save of step {}", step()));
  const bool aside = options_.asynchronous && !how.must && !how.waits;
  // The save before the first step, after which others come.
  const bool first = !saved_ && timer_.saved_step() == step();
  const Saved made =
      write({.may_fail = how.must || !failed_saves_.patient() ? nullptr : &failed_saves_,
             .aside = aside ? &pending_ : nullptr,
             .prepares = options_.asynchronous && first});
  if (pending_.any()) {
    timer_.failed(step());  // until settle() says that it was written
    pending_step_ = step();
  } else if (made.saved) {
    timer_.saved(step());
    saved_ = true;
  } else {
    timer_.failed(step());
  }
  return made;
}

// The limit of a save, save_timeout, holds for the calls of hooks and for the wait, too.
void RunSaves::look(int64_t step) {
  if (!pending_.is_done()) return;
  replica_.group().report(Phase::kSaving, pending_step_);
  pending_.look();
  replica_.group().report(Phase::kTraining, step);
}

void RunSaves::settle(const std::string& waiter) {
  if (pending_.any()) replica_.group().report(Phase::kSaving, pending_step_);
  const std::optional<bool> written = pending_.settle(replica_, waiter);
  if (!written || !*written) return;
  timer_.written(pending_step_);
  saved_ = true;
}

void RunSaves::end_after_error() noexcept {
  try {
    if (!pending_.any() || pending_.await().empty()) return;
    timer_.written(pending_step_);
    saved_ = true;
  } catch (...) {
    log::warning(current_error().message());
  }
}

}  // namespace muster::inline v0_1
