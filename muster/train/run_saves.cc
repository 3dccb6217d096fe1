#include "muster/train/internal/run_saves.h"

#include "muster/train/internal/run_input.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1::internal {

using distribute::Phase;

RunSaves::RunSaves(const TrainerOptions& options, Engine& engine, HookList& hooks, Clock& clock)
    : options_(options),
      engine_(engine),
      replica_(engine.replica()),
      hooks_(hooks),
      timer_(options.save_checkpoints_steps, options.save_checkpoints_secs, clock, engine.step()),
      failed_saves_(most_failed_saves(options.max_failed_saves, options.model_dir),
                    "RunConfig.max_failed_saves") {}

bool RunSaves::takes_part() const {
  return enabled() && (replica_.shared() == nullptr || replica_.is_chief());
}

CheckpointManagerOptions RunSaves::manager_options() const {
  return {.fs = options_.fs,
          .clock = options_.clock,
          .keep_checkpoint_max = options_.keep_checkpoint_max,
          .keep_checkpoint_every_n_hours = options_.keep_checkpoint_every_n_hours,
          .keep = options_.keep_checkpoint};
}

CheckpointManager RunSaves::checkpoints() const {
  return CheckpointManager(options_.model_dir, manager_options());
}

void RunSaves::open() {
  writer_.emplace(options_.model_dir, manager_options(), [] { return stop_signal() != 0; });
}

void RunSaves::begin() { timer_.saved(engine_.step()); }

void RunSaves::agree_on_patience() {
  if (enabled()) failed_saves_.take_chiefs_limit(replica_.group(), replica_.is_chief());
}

bool RunSaves::wanted_by_clock() const { return timer_.wanted_by_clock(replica_.is_chief()); }

Saved RunSaves::save(distribute::ReplicaInput& input, int64_t examples_of_step, bool must) {
  // before_save() has the patience of a save.
  replica_.group().report(Phase::kSaving, engine_.step());
  if (replica_.is_chief()) hooks_.before_save(engine_.step());
  Saved made = engine_.save(
      {.inputs = [&] { return positions_of(input, examples_of_step); },
       .epoch = input.batches().position().epoch,
       .writer = [&]() -> CheckpointWriter& { return *writer_; },
       .saved = [&](const std::string& prefix) { hooks_.after_save(engine_.step(), prefix); },
       .may_fail = must || !failed_saves_.patient() ? nullptr : &failed_saves_});
  if (made.saved) {
    timer_.saved(engine_.step());
    saved_ = true;
  } else {
    timer_.failed(engine_.step());
  }
  return made;
}

std::string RunSaves::roll_back() {
  engine_.roll_back(checkpoints());
  timer_.saved(engine_.step());
  replica_.group().report(Phase::kTraining, engine_.step());
  return engine_.restored_from();
}

}  // namespace muster::inline v0_1::internal
