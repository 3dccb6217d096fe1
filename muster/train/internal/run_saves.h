// The checkpoints of one run: when they are due, who writes them, and what becomes of one that
// fails. Thread safety: belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/checkpoint/manager.h"
#include "muster/distribute/replica_input.h"
#include "muster/train/checkpoint_writer.h"
#include "muster/train/engine.h"
#include "muster/train/failed_saves.h"
#include "muster/train/hook_list.h"
#include "muster/train/save_timer.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1::internal {

class RunSaves {
 public:
  // All outlive it.
  RunSaves(const TrainerOptions& options, Engine& engine, HookList& hooks, Clock& clock);

  // Whether the run saves at all.
  bool enabled() const { return timer_.enabled(); }
  // Whether this replica takes part: those in step save together; of workers at their own pace, the
  // chief alone does.
  bool takes_part() const;
  // Whether a save has been made.
  bool any() const { return saved_; }
  // What is in model_dir.
  CheckpointManager checkpoints() const;

  // On the chief: takes model_dir for this run. Throws what CheckpointWriter throws.
  void open();
  // The next save counts from this step and moment.
  void begin();
  // How many saves may fail is for the chief to say; all replicas call it together.
  void agree_on_patience();
  // Whether the chief's seconds are over; false elsewhere.
  bool wanted_by_clock() const;
  // Whether this replica is to save behind this step; `agreed`: the chief's clock wanted it.
  bool due(bool agreed) const { return takes_part() && timer_.due(engine_.step(), agreed); }
  // Whether it takes part, and this step is not saved.
  bool lacks_step() const { return takes_part() && timer_.saved_step() != engine_.step(); }

  // Saves this step. Where it `must`, what fails ends the run.
  Saved save(distribute::ReplicaInput& input, int64_t examples_of_step, bool must);
  // The state becomes that of the last save; the input stays where it is. Returns its prefix.
  std::string roll_back();

 private:
  CheckpointManagerOptions manager_options() const;

  const TrainerOptions& options_;
  Engine& engine_;
  distribute::Replica& replica_;
  HookList& hooks_;
  SaveTimer timer_;
  FailedSaves failed_saves_;
  std::optional<CheckpointWriter> writer_;  // on the chief, if it saves
  bool saved_ = false;
};

}  // namespace muster::inline v0_1::internal
