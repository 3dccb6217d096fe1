// The checkpoints of one run: when they are due, which process writes them, and what follows if one
// fails. Thread safety: belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/checkpoint/manager.h"
#include "muster/distribute/replica.h"
#include "muster/train/checkpoint_writer.h"
#include "muster/train/failed_saves.h"
#include "muster/train/pace.h"
#include "muster/train/save_timer.h"
#include "muster/train/save_together.h"

namespace muster::inline v0_1 {

// Where a run saves, and how often.
struct RunSavesOptions {
  std::string model_dir{};
  CheckpointManagerOptions manager{};
  // At most one of the two; none: never.
  std::optional<int64_t> every_steps{};
  std::optional<double> every_seconds{};
  std::optional<int64_t> max_failed_saves{};  // RunConfig.max_failed_saves
  // A thread writes the checkpoints while the run makes steps, except where a save must succeed.
  bool asynchronous = false;
  // True ends the wait for model_dir; empty: a signal does.
  std::function<bool()> cancelled{};
};

class MUSTER_PART_EXPORT RunSaves {
 public:
  // References outlive it. `step` is where the run is.
  RunSaves(RunSavesOptions options, distribute::Replica& replica, const Pace& pace, Clock& clock,
           int64_t step);

  // What a replica of an elastic run keeps from one group of workers to the next. The chief keeps
  // model_dir, and a save that a thread still writes. No group continues from an earlier step,
  // since the chief has made its step and is in each group. A save whose parts are not all written
  // when a worker is lost is abandoned. The others keep a thread that still writes a part.
  class Kept;
  // The run goes on with another group. Nothing else may be called afterwards.
  std::shared_ptr<Kept> keep() const { return kept_; }
  // Goes on from an earlier group; `saved` is called for the save in flight. Before open().
  void take(std::shared_ptr<Kept> kept, std::function<void(const std::string& prefix)> saved);
  // The run ends between two groups: waits for the save in flight, if any, and logs its failure.
  // Returns its step if it was written, and -1 otherwise; `saved` is called then.
  static int64_t end(Kept& kept, std::function<void(const std::string& prefix)> saved) noexcept;
  // The save in flight; on other replicas than the chief, what it says of it.
  struct InFlight {
    int64_t step = -1;  // -1: there is none
    bool may_fail = false;
  };
  InFlight in_flight() const;
  void expect(const InFlight& save);

  // Whether the run saves at all.
  bool enabled() const { return timer_.enabled(); }
  // Whether this replica takes part in it.
  bool takes_part() const { return enabled() && pace_.saves(); }
  // Whether a save has been written, as far as this replica knows.
  bool any() const { return saved_; }
  // The checkpoints in model_dir.
  CheckpointManager checkpoints() const;

  // On the chief, unless nothing is saved: takes model_dir for this run, if it has not. Throws the
  // errors of CheckpointWriter.
  void open();
  CheckpointWriter& writer();
  // The next save counts from this step and moment.
  void begin(int64_t step) { timer_.saved(step); }
  // The same for a run that goes on in memory, which has saved before.
  void begin(const SaveTimer::Marks& marks) { timer_.go_on_from(marks); }
  SaveTimer::Marks marks() const { return timer_.marks(); }
  // How many saves may fail is for the chief to say; all replicas call it together.
  void agree_on_patience();
  // Whether the chief's seconds are over; false elsewhere.
  bool wanted_by_clock() const { return timer_.wanted_by_clock(replica_.is_chief()); }
  // Whether this replica is to save after this step; `agreed`: the chief's clock wanted it.
  bool due(int64_t step, bool agreed) const { return takes_part() && timer_.due(step, agreed); }
  // On the chief: whether a thread writes a save.
  bool is_writing() const;
  // Whether it takes part, and this step is not saved.
  bool lacks(int64_t step) const { return takes_part() && timer_.saved_step() != step; }

  // Saves by `write`, which calls save_together() with its argument; `step` returns the step that
  // was saved. If it `must`, a failure ends the run, and the checkpoint is written when this
  // returns. Otherwise it settles the save before, and a thread may write this one, unless it
  // `waits`.
  struct How {
    bool must = false;
    bool waits = false;
  };
  Saved save(const How& how, const std::function<Saved(const SaveWay& way)>& write,
             const std::function<int64_t()>& step);
  // Between two steps, after `step`: handles a save that the thread has written since. Throws its
  // error.
  void look(int64_t step);
  // All replicas together: waits for a save that the thread still writes, for which `waiter` waits.
  // Afterwards lacks() and any() are exact.
  void settle(const std::string& waiter);
  // The same before the group of workers changes, if the save needs them.
  void settle_parts(const std::string& waiter) {
    if (needs_group()) settle(waiter);
  }
  // The run has failed: waits for a save that the thread still writes, and logs its failure.
  void end_after_error() noexcept;

 private:
  bool needs_group() const;

  const RunSavesOptions options_;
  distribute::Replica& replica_;
  const Pace& pace_;
  SaveTimer timer_;
  std::shared_ptr<Kept> kept_;  // always set
  bool saved_ = false;
};

}  // namespace muster::inline v0_1
