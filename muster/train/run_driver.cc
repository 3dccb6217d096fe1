#include "muster/train/run_driver.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/train/stop_reason.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {

using distribute::Phase;
using distribute::StepResult;

bool RunDriver::wants_to_stop() const {
  return course_.wants_to_stop() || stop_signal() != 0 || course_.has_newcomers();
}

bool RunDriver::stops_alone() const {
  return replica_.num_replicas_in_sync() == 1 && wants_to_stop();
}

RunDriver::End RunDriver::run(const Plan& plan) {
  pace_.set_saves(saves_.enabled());
  plan.saves ? saves_.begin(*plan.saves) : saves_.begin(engine_.step());
  if (saves_.takes_part() && plan.saves_first && !plan.continues)
    save({.notify = false, .must = true});
  saves_.agree_on_patience();
  // The group before was lost before it had saved this step.
  if (plan.saves && saves_.due(engine_.step(), false)) save({});
  End end = course_.agree_on_no_step() ? End::kAsked : End::kOver;
  while (end == End::kOver && pace_.begin_step(engine_.step(), plan.last_step)) {
    const StepResult made = course_.make_step();
    if (!made.any_data) {
      // A wait for data ends where the run is to stop.
      const bool asked = (made.stop || stops_alone()) && agree_on_next() == Next::kEnd;
      if (asked) end_on_request();
      end = asked ? End::kAsked : End::kNoMoreData;
      break;
    }
    course_.after_step(made);
    saves_.look(engine_.step());
    // A request to stop after a step means a step that was made: all replicas continue to it.
    const bool asked = (made.stop && made.finite) || stops_alone();
    Next next = asked ? agree_on_next() : Next::kStep;
    const bool ends = next == Next::kEnd;
    // The first save of a run shows that it can be saved.
    if (due(made.save)) {
      save({.notify = !ends && next != Next::kLeave,
            .must = ends || (!plan.continues && !saves_.any()),
            .waits = pace_.save_wanted()});
    }
    course_.after_step_and_save(made);
    if (next == Next::kStep && stops_alone()) next = agree_on_next();
    if (next != Next::kStep && next != Next::kEnd) saves_.settle_parts("the change of workers");
    if (next == Next::kStep || next == Next::kStepWithout) continue;
    if (next == Next::kLeave) leave();
    if (next == Next::kRegroup) {
      regroup();
      return End::kAsked;
    }
    end_on_request();
    end = End::kAsked;
  }
  if (pace_.others_go_on() && doing_ == Doing::kSteps) {
    // It waited for others, and was told to stop meanwhile.
    end_if_told();
    end_steps(end, [&] {
      saves_.look(engine_.step());
      if (due(wants_to_save())) save({.waits = pace_.save_wanted()});
    });
    if (replica_.is_chief()) end_if_told();
  }
  course_.after_last_step();
  if (lacks()) save({.must = true});
  return end;
}

void RunDriver::end_steps(End end) {
  end_steps(end, [] {});
}

void RunDriver::end_steps(End end, const std::function<void()>& others_go_on) {
  if (doing_ == Doing::kNoSteps) return;
  if (pace_.others_go_on()) replica_.group().report(Phase::kWaiting, engine_.step());
  engine_.follow(pace_.end_steps(end, engine_.step(), [&](int64_t now) {
    engine_.follow(now);
    others_go_on();
  }));
  doing_ = Doing::kNoSteps;
}

void RunDriver::end_if_told() {
  if (stop_signal() != 0) end_on_request();
}

void RunDriver::end_on_request() {
  const auto reason =
      StopReason::agree(replica_.group(), replica_.place().name(), stop_signal() != 0);
  if (!reason) return;  // the course's request, here or elsewhere
  end_steps(End::kTold);
  if (lacks()) save({.notify = false, .must = true});
  const std::string where =
      saves_.takes_part() ? fmt::format("after saving step {}", engine_.step())
      : saves_.enabled()  ? fmt::format("at step {}; the chief saves", engine_.step())
                          : fmt::format("at step {}, without checkpoints", engine_.step());
  engine_.finish();
  throw reason->error(where, saves_.enabled());
}

RunDriver::Next RunDriver::agree_on_next() {
  if (!course_.elastic()) return Next::kEnd;
  const internal::StepWish mine{.signal = stop_signal() != 0,
                                .end = course_.wants_to_stop(),
                                .newcomers = course_.has_newcomers()};
  const auto& place = replica_.place();
  return internal::next_step(replica_.group().gather_text("elastic", mine.text()), place.locals,
                             place.process,
                             [this](int leaving) { return course_.can_spare(leaving); });
}

void RunDriver::leave() {
  throw Error(ErrorKind::kCancelled,
              fmt::format("stopped by {} at step {}", stop_signal_name(), engine_.step()),
              "the other workers of this elastic run continue without this one");
}

void RunDriver::regroup() {
  regroups_ = true;
  course_.before_regroup();
  engine_.finish();
}

void RunDriver::save(const Save& how) {
  const TimePoint begun = clock_.now();
  replica_.group().report(Phase::kSaving, engine_.step());
  const Saved made = saves_.save(
      {.must = how.must, .waits = how.waits},
      [&](const SaveWay& way) { return course_.write(way); }, [&] { return engine_.step(); });
  if (made.saved && how.notify) tell_saved(made);
  replica_.group().report(Phase::kTraining, engine_.step());
  if (!pace_.others_go_on()) course_.after_pause(to_seconds(clock_.now() - begun));
}

bool RunDriver::lacks() {
  saves_.settle("the end of the run");
  return saves_.lacks(engine_.step());
}

void RunDriver::tell_saved(const Saved& made) {
  const Doing before = doing_;
  try {
    while_idle([&] { course_.after_save(made); });
  } catch (const Error& error) {
    if (!pace_.goes_on_after(error)) throw;
    doing_ = before;
  }
  course_.after_evaluation();
}

std::string RunDriver::roll_back() {
  saves_.settle("the way back to the last checkpoint");
  engine_.roll_back(saves_.checkpoints());
  saves_.begin(engine_.step());
  replica_.group().report(Phase::kTraining, engine_.step());
  return engine_.restored_from();
}

void RunDriver::while_idle(const std::function<void()>& work) {
  const Doing before = std::exchange(doing_, Doing::kIdle);
  work();
  doing_ = before;
}

}  // namespace muster::inline v0_1
