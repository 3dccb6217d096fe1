#include "muster/train/run_saves.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {

using distribute::Phase;

class RunSaves::Kept {
 public:
  explicit Kept(int64_t most_failed) : failed_saves(most_failed, "RunConfig.max_failed_saves") {}

  // Waits for the save in flight. Returns its step if it was written, and -1 otherwise.
  int64_t await() { return pending.any() && !pending.await().empty() ? pending_step : -1; }

  FailedSaves failed_saves;
  std::optional<CheckpointWriter> writer{};  // on the chief, if it saves
  PendingSave pending{};
  int64_t pending_step = -1;
};

RunSaves::RunSaves(RunSavesOptions options, distribute::Replica& replica, const Pace& pace,
                   Clock& clock, int64_t step)
    : options_(std::move(options)),
      replica_(replica),
      pace_(pace),
      timer_(options_.every_steps, options_.every_seconds, clock, step),
      kept_(std::make_shared<Kept>(
          most_failed_saves(options_.max_failed_saves, options_.model_dir))) {}

void RunSaves::take(std::shared_ptr<Kept> kept,
                    std::function<void(const std::string& prefix)> saved) {
  kept_ = std::move(kept);
  kept_->pending.leave_group(replica_.is_chief());
  kept_->pending.call_when_saved(std::move(saved));
}

int64_t RunSaves::end(Kept& kept, std::function<void(const std::string& prefix)> saved) noexcept {
  try {
    kept.pending.call_when_saved(std::move(saved));
    return kept.await();
  } catch (...) {
    log::warning(current_error().message());
    return -1;
  }
}

RunSaves::InFlight RunSaves::in_flight() const {
  const PendingSave& pending = kept_->pending;
  if (!pending.any()) return {};
  return {kept_->pending_step, pending.patient()};
}

void RunSaves::expect(const InFlight& save) {
  if (save.step < 0 || kept_->pending.any()) return;
  kept_->pending.expect(save.may_fail);
  kept_->pending_step = save.step;
}

bool RunSaves::is_writing() const { return kept_->pending.is_writing(); }
bool RunSaves::needs_group() const { return kept_->pending.needs_group(); }

CheckpointWriter& RunSaves::writer() { return *kept_->writer; }

CheckpointManager RunSaves::checkpoints() const {
  return CheckpointManager(options_.model_dir, options_.manager);
}

void RunSaves::open() {
  if (!enabled() || !replica_.is_chief() || kept_->writer) return;
  kept_->writer.emplace(
      options_.model_dir, options_.manager,
      options_.cancelled ? options_.cancelled : [] { return stop_signal() != 0; });
}

void RunSaves::agree_on_patience() {
  if (enabled()) kept_->failed_saves.take_chiefs_limit(replica_.group(), replica_.is_chief());
}

Saved RunSaves::save(const How& how, const std::function<Saved(const SaveWay& way)>& write,
                     const std::function<int64_t()>& step) {
  settle(fmt::format("the save of step {}", step()));
  const bool aside = options_.asynchronous && !how.must && !how.waits;
  // The save before the first step, after which others come.
  const bool first = !saved_ && timer_.saved_step() == step();
  const Saved made = write(
      {.may_fail = how.must || !kept_->failed_saves.patient() ? nullptr : &kept_->failed_saves,
       .aside = aside ? &kept_->pending : nullptr,
       .prepares = options_.asynchronous && first});
  if (kept_->pending.any()) {
    timer_.failed(step());  // until settle() says that it was written
    kept_->pending_step = step();
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
  if (!kept_->pending.is_done()) return;
  replica_.group().report(Phase::kSaving, kept_->pending_step);
  kept_->pending.look();
  replica_.group().report(Phase::kTraining, step);
}

void RunSaves::settle(const std::string& waiter) {
  PendingSave& pending = kept_->pending;
  if (pending.any()) replica_.group().report(Phase::kSaving, kept_->pending_step);
  const std::optional<bool> written = pending.settle(replica_, waiter);
  if (!written || !*written) return;
  timer_.written(kept_->pending_step);
  saved_ = true;
}

void RunSaves::end_after_error() noexcept {
  try {
    const int64_t written = kept_->await();
    if (written < 0) return;
    timer_.written(written);
    saved_ = true;
  } catch (...) {
    log::warning(current_error().message());
  }
}

}  // namespace muster::inline v0_1
