// Drives one run on one replica from its first step to its end: decides which steps there are, when
// it saves, when it stops, and how it ends. The Pace counts the steps; the RunCourse defines a
// batch and the hooks to call. Estimators and boosted trees are driven by it. Thread safety:
// belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/distribute/step.h"
#include "muster/train/engine.h"
#include "muster/train/failed_saves.h"
#include "muster/train/next_step.h"
#include "muster/train/pace.h"
#include "muster/train/run_saves.h"
#include "muster/train/save_together.h"

namespace muster::inline v0_1 {

// What a kind of run has of its own. All replicas of a run have the same kind.
class RunCourse {
 public:
  virtual ~RunCourse() = default;

  // Whether some replica wants no step at all; all call it together, once the run can save.
  virtual bool agree_on_no_step() { return false; }
  // Makes one step, in which the replicas learn what RunDriver::wants_to_stop() and wants_to_save()
  // say on each. StepResult::any_data is false where there was nothing to make it of.
  virtual distribute::StepResult make_step() = 0;
  // It was made: `made.finite` says whether it counts.
  virtual void after_step(const distribute::StepResult& made) = 0;
  // What was to save after it is saved.
  virtual void after_step_and_save(const distribute::StepResult& /*made*/) {}
  // All steps are made, and the last of them may not be saved yet.
  virtual void after_last_step() {}
  // Whether this replica wants to stop, next to the signals that its task gets.
  virtual bool wants_to_stop() const { return false; }

  // --- of an elastic run, whose group of workers may change between two steps ---
  virtual bool elastic() const { return false; }
  // Whether workers wait to join it.
  virtual bool has_newcomers() const { return false; }
  // Whether it can go on when so many tasks of the group leave it.
  virtual bool can_spare(int /*leaving*/) const { return false; }
  // The group ends here, and another one goes on from this step. All replicas call it together.
  virtual void before_regroup() {}

  // Saves the step where the engine is, by save_together(). All replicas that take part call it.
  virtual Saved write(const SaveWay& way) = 0;
  // It is saved, or a thread writes it, and may be evaluated, in which no step is made; and that is
  // over.
  virtual void after_save(const Saved& /*made*/) {}
  virtual void after_evaluation() {}
  // The run stood still for this long.
  virtual void after_pause(double /*seconds*/) {}
};

class MUSTER_PART_EXPORT RunDriver {
 public:
  using End = Pace::End;

  // All outlive it.
  RunDriver(Engine& engine, Pace& pace, RunSaves& saves, RunCourse& course, Clock& clock)
      : engine_(engine),
        replica_(engine.replica()),
        pace_(pace),
        saves_(saves),
        course_(course),
        clock_(clock) {}

  struct Plan {
    int64_t last_step = -1;                   // below 0: until the data ends
    bool continues = false;                   // from a checkpoint of this run
    bool saves_first = true;                  // unless it continues, it saves before the first step
    std::optional<SaveTimer::Marks> saves{};  // where it goes on in memory: its last save
  };
  // Makes the steps. Returns how they ended, which kTold is not; a task that is told to stop throws
  // Cancelled when the run is saved, and the others Unavailable. Throws what makes a step or a save
  // fail.
  End run(const Plan& plan);
  // This replica makes no more steps; nothing where run() has said so.
  void end_steps(End end);
  // The state becomes that of the last save; the input stays where it is. Returns its prefix.
  std::string roll_back();

  bool wants_to_stop() const;
  bool wants_to_save() const { return saves_.wanted_by_clock(); }

  // Whether run() ended because another group of workers goes on.
  bool regroups() const { return regroups_; }

  // Calls `work`, in which no step is made. Where it throws, idle() stays true, since then the run
  // is over.
  void while_idle(const std::function<void()>& work);
  bool idle() const { return doing_ == Doing::kIdle; }

 private:
  struct Save {
    bool notify = true;  // RunCourse::after_save() is called
    bool must = false;   // when it fails, the run ends
    bool waits = false;  // until the checkpoint is written
  };
  void save(const Save& how);
  // Whether to save the step where the engine is; `agreed`: the chief's clock wanted it. A save
  // that a thread writes may be what a server waits for.
  bool due(bool agreed) const {
    return saves_.due(engine_.step(), agreed) ||
           (saves_.takes_part() && !saves_.is_writing() && pace_.save_wanted());
  }
  // Whether this step is not saved; all replicas together, since they settle a save in flight.
  bool lacks();
  void tell_saved(const Saved& made);
  // A request to stop that needs no agreement of other tasks: several replicas agree with their
  // next step.
  bool stops_alone() const;
  // A course's request ends the run normally; a signal ends it with Cancelled, or, in the tasks
  // that got none, with the request to be restarted together with the one that did.
  void end_on_request();
  using Next = internal::NextStep;
  // All replicas call it when one of them wants to stop. In a run that is not elastic it is the
  // end.
  Next agree_on_next();
  [[noreturn]] void leave();
  // The group ends, and another one takes its state.
  void regroup();
  void end_if_told();
  void end_steps(End end, const std::function<void()>& others_go_on);

  Engine& engine_;
  distribute::Replica& replica_;
  Pace& pace_;
  RunSaves& saves_;
  RunCourse& course_;
  Clock& clock_;
  enum class Doing {
    kSteps,
    kIdle,    // it evaluates, or waits for model_dir
    kNoSteps  // any more
  };
  Doing doing_ = Doing::kSteps;
  bool regroups_ = false;
};

}  // namespace muster::inline v0_1
