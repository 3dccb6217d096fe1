#include "muster/train/internal/train_replica.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/data/stop_scope.h"
#include "muster/distribute/agree.h"
#include "muster/distribute/replica_input.h"
#include "muster/files/file_systems.h"
#include "muster/plan/activity.h"
#include "muster/tensor/element_spec.h"
#include "muster/tensor/threads.h"
#include "muster/train/hook_list.h"
#include "muster/train/internal/elastic_member.h"
#include "muster/train/internal/example_audit.h"
#include "muster/train/internal/failure_report.h"
#include "muster/train/internal/live_task.h"
#include "muster/train/internal/model_training.h"
#include "muster/train/internal/non_finite_steps.h"
#include "muster/train/internal/run_input.h"
#include "muster/train/internal/run_settings.h"
#include "muster/train/internal/step_profile.h"
#include "muster/train/run_driver.h"
#include "muster/train/run_saves.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1::internal {
namespace {

using distribute::Phase;
using distribute::Replica;
using distribute::ReplicaInput;
using distribute::StepResult;

// The run of an Estimator: it takes its batches from the input, its steps from the model function,
// and calls its hooks.
class Run final : public RunCourse {
 public:
  Run(const ModelFn& model_fn, const TrainerOptions& options, Replica& replica, Attempt* attempt,
      LiveTask& live)
      : options_(options),
        live_(live),
        replica_(replica),
        engine_(replica, options.accumulate_steps),
        pace_(Pace::of(replica)),
        clock_(options.clock != nullptr ? *options.clock : system_clock()),
        steps_(model_fn, options, engine_, *pace_, trace_),
        non_finite_(options, engine_),
        profile_(replica, trace_, clock_),
        saves_(saves_of(options), replica, *pace_, clock_, engine_.step()),
        driver_(engine_, *pace_, saves_, *this, clock_) {
    if (!options.start.elastic) return;
    attempt_ = attempt;
    elastic_.emplace(options.start, engine_, saves_, non_finite_, *attempt);
    if (attempt->saves)
      saves_.take(std::exchange(attempt->saves, nullptr), [this](auto prefix) { saved(prefix); });
  }

  TrainResult operator()(const InputFn& input_fn) {
    pace_->check(options_.non_finite);
    if (options_.audit && pace_->others_go_on()) {
      throw invalid_argument(
          "not supported: RunConfig.audit on parameter servers, where each worker takes the next "
          "examples of its own order",
          "use a strategy whose workers train in step, or leave audit unset");
    }
    replica_.group().report(Phase::kBuilding, 0);
    distribute::check_same(replica_.group(), replica_.place(),
                           settings_of(options_, replica_.seed()));
    // In the group already, so that the others receive its error.
    driver_.while_idle([&] { saves_.open(); });
    const bool in_memory = elastic_ && elastic_->continue_from_memory();
    if (!in_memory) engine_.find_checkpoint(saves_.checkpoints());
    if (options_.warm_start_from) {
      engine_.warm_start(*options_.warm_start_from,
                         options_.fs != nullptr ? *options_.fs : file_systems());
    }
    if (!in_memory && options_.max_steps && engine_.step() >= *options_.max_steps)
      return nothing_to_do();
    const std::function<bool()> asked = [told = options_.start.cancelled,
                                         asked = options_.asked_to_end] {
      return (told && told()) || (asked && asked());
    };
    const data::StopScope stops_waits(asked);
    const Dataset given = input_fn(replica_.input_context());
    const Dataset dataset = elastic_ ? distribute::divide_rows(given) : given;
    const bool anew = options_.earlier_call && options_.earlier_call->input_ended &&
                      options_.earlier_call->step == engine_.step();
    const auto open = [&](int64_t pass) {
      input_.emplace(replica_, dataset, input_fn.shards_itself(),
                     data::DistributeOptions{.pass = pass});
      return input_->agree_on_form();
    };
    if (!open(anew ? next_pass(engine_) : 0)) {
      if (asked())
        throw Error(ErrorKind::kCancelled, "stopped while it waited for its first batch");
      if (!pace_->needs_data()) return without_data(dataset);
      throw invalid_argument(
          "the input function gave no data: " + dataset.describe(),
          "check the data directory and the transformations; take(0), skip() or a filter may have "
          "removed everything");
    }
    if (elastic_) distribute::check_divided(*input_);
    examples_of_step_ = examples_of_step(dataset, replica_, options_.accumulate_steps);
    pace_->tell_form([&] { return encode_batch_spec(input_->batches().peek()); });
    build(input_->batches().peek());
    pace_->begin(engine_, &*input_,
                 {.restart_input = (options_.restart_input && !in_memory) || anew,
                  .restart_is_asked = options_.restart_input,
                  .examples_of_step = examples_of_step_,
                  .last_step = [this](int64_t step) { return last_step_from(step); },
                  .continued =
                      [&] {
                        if (!anew && is_used_up()) open(next_pass(engine_));
                      }});
    if (replica_.is_chief() && input_->batches().position().elements_total == 0) tell_of_pass();
    if (elastic_) elastic_->begin_group();
    return make_steps();
  }

  // Whether another group can go on after `error`. This worker's state is remembered for it.
  bool goes_on_after(const Error& error) {
    if (!elastic_ || !elastic_->goes_on_after(error)) return false;
    if (speaks_here())
      elastic_->remember_loss(input_ ? &*input_ : nullptr, examples_of_step_, last_step_);
    return stop_signal() == 0;  // a run that is asked to stop saves what is remembered
  }

  // The run ended with an error, which the other replicas know by now. A save in flight goes on if
  // the run does, and if no hook has begun that could learn of it.
  void end_save(bool goes_on) noexcept {
    if (goes_on || (elastic_ && !hooks_begun_)) return keep_saves();
    saves_.end_after_error();
    // What is remembered need not be saved if this save was of its step.
    if (!elastic_ || !replica_.is_chief()) return;
    int64_t& saved = attempt_->memory.saves.saved_step;
    saved = std::max(saved, saves_.marks().saved_step);
  }
  void on_error(const Error& error) noexcept {
    if (replica_.place().processes > 1 && speaks_here())
      report_failure(options_.fs, options_.model_dir, replica_.place().name(), step(), error);
    hooks_.on_error(error);
  }

  int64_t step() const { return engine_.step(); }
  // By this replica, since the run began.
  int64_t steps_made() const { return steps_made_; }
  bool has_saved() const { return saves_.any(); }
  // Whether it does not train: it evaluates, or waits for model_dir.
  bool idle() const { return driver_.idle(); }

 private:
  void keep_saves() noexcept { attempt_->saves = saves_.keep(); }
  void saved(const std::string& prefix) { hooks_.after_save(checkpoint_step(prefix), prefix); }

  // Whether it continues from the memory of the workers.
  bool in_memory() const { return elastic_ && elastic_->in_memory(); }

  // One replica speaks for the process.
  bool speaks_here() const { return replica_.place().local == 0; }

  // Whether an earlier call of this program came here, and left nothing of the input.
  bool is_used_up() {
    return options_.earlier_call && options_.earlier_call->step == engine_.step() &&
           !options_.restart_input && !input_->agree_on_form();
  }

  // As tf.estimator, which calls the input function again.
  void tell_of_pass() const {
    const int64_t pass = input_->batches().save().value("pass", int64_t{0});
    if (pass == 0) return;
    log::info(
        fmt::format("the input had ended at step {}: it starts again, in the order of pass {}",
                    engine_.step(), pass));
  }

  void warn_of_short_input(const TrainResult& result) const {
    if (result.steps == 0 && result.end_of_input) {
      log::warning(
          fmt::format("no step was made: the run in model_dir had reached the end of its input at "
                      "step {}; the next train() of this program starts the input again, and "
                      "RunConfig.restart_input does so immediately",
                      engine_.step()));
    } else if (result.end_of_input && step() < last_step_ && !pace_->others_go_on()) {
      log::warning(
          fmt::format("the input ended at step {}, before step {}: to continue, repeat() it",
                      step(), last_step_));
    }
  }

  // Where the time of the input went, when the model waited for it long enough to matter.
  void tell_of_input() const {
    const double waited = trace_.seconds(StepTrace::kInput), total = trace_.total();
    constexpr double kWorthReading = 1.0, kShare = 0.1;
    if (waited < kWorthReading || waited < kShare * total) return;
    log::info(fmt::format("input: the model waited {:.1f} s of {:.1f} s ({:.0f} %) for data; {}",
                          waited, total, 100 * waited / total,
                          describe_longest(input_->batches().times(), /*most=*/3)));
  }

  // max_steps is reached: neither the input nor the model is looked at.
  TrainResult nothing_to_do() {
    if (speaks_here()) {
      log::info(fmt::format("the checkpoint is at step {}, max_steps is {}: nothing to train",
                            engine_.step(), *options_.max_steps));
    }
    tell_end(/*trained=*/false);
    engine_.finish();
    return {.global_step = engine_.step()};
  }

  void tell_end(bool trained) {
    if (!options_.at_end) return;
    driver_.while_idle([&] { options_.at_end(engine_.step(), trained, replica_); });
  }

  // The others train on theirs.
  TrainResult without_data(const Dataset& dataset) {
    log::warning("this worker has no data, and the others train without it: " + dataset.describe());
    pace_->begin(engine_, nullptr, {.restart_input = options_.restart_input});
    driver_.end_steps(RunDriver::End::kNoMoreData);
    engine_.finish();
    return {.global_step = engine_.step(), .end_of_input = true};
  }

  void build(const Element& element) {
    const EstimatorSpec spec = steps_.build(element);
    if (replica_.is_chief()) {
      hooks_.add(spec.training_chief_hooks);
      hooks_.add(options_.chief_hooks);
    }
    if (speaks_here()) {
      hooks_.add(options_.hooks);
      hooks_.add(spec.training_hooks);
    }
  }

  // The step at which a run ends that begins at this one; nothing if its input ends it.
  std::optional<int64_t> last_step_from(int64_t step) const {
    std::optional<int64_t> last = options_.max_steps;
    if (options_.steps && (!last || step + *options_.steps < *last)) last = step + *options_.steps;
    return last;
  }

  // From the first step to the end of the run.
  TrainResult make_steps() {
    TrainResult result;
    const int64_t start_step = engine_.step();
    last_step_ =
        in_memory() ? elastic_->memory().last_step : last_step_from(start_step).value_or(-1);
    // A hook may wait for another run: it has the patience that building has.
    replica_.group().report(Phase::kBuilding, start_step);
    begin_hooks();
    replica_.group().report(Phase::kTraining, start_step);
    begin_audit();
    const RunDriver::End end = driver_.run(
        {.last_step = last_step_,
         .continues = !engine_.restored_from().empty(),
         .saves = in_memory() ? std::optional(elastic_->memory().saves) : std::nullopt});
    profile_.end_run();
    if (driver_.regroups()) return {.global_step = engine_.step()};
    tell_profile();
    result.stopped = end == RunDriver::End::kAsked;
    result.end_of_input = end == RunDriver::End::kNoMoreData;
    if (audit_ && result.end_of_input) audit_->note_end();
    if (audit_) audit_->flush();
    result.global_step = engine_.step();
    result.steps = engine_.step() - start_step;
    result.skipped_steps = non_finite_.skipped();
    result.roll_backs = non_finite_.roll_backs();
    if (speaks_here()) warn_of_short_input(result);
    if (replica_.is_chief()) tell_of_input();
    // A slow replica is not stuck now: the last evaluation comes, and hooks may export.
    replica_.group().report(Phase::kEvaluating, engine_.step());
    tell_end(result.steps > 0 || in_memory());
    tell_of_evaluations();
    hooks_.end(engine_.step());
    if (options_.trace && replica_.is_chief()) log::info(trace_.report());
    engine_.finish();
    return result;
  }

  void begin_hooks() {
    const int64_t k = options_.accumulate_steps, batches = pace_->batches_left(*input_);
    const int64_t left = batches < 0 ? batches : (batches + k - 1) / k;
    const bool input_ends = left >= 0 && (last_step_ < 0 || step() + left < last_step_);
    hooks_begun_ = true;
    if (attempt_ != nullptr) attempt_->hooks_begun = true;
    hooks_.begin({.start_step = step(),
                  .last_step = input_ends ? step() + left : last_step_,
                  .num_replicas = replica_.num_replicas_in_sync(),
                  .is_chief = replica_.is_chief(),
                  .model_dir = options_.model_dir,
                  .graph = steps_.graph() ? &*steps_.graph() : nullptr,
                  .state = [this] {
                    Checkpoint now{.global_step = step()};
                    for (const auto& [name, tensor] : replica_.state().tensors())
                      now.tensors[name] = tensor.clone();
                    return now;
                  }});
  }

  void tell_live() {
    // They are a request to a server.
    constexpr int64_t kMeasuresEvery = 10;
    if (live_tells_++ % kMeasuresEvery == 0) measures_ = pace_->measures();
    live_.tell({.last_step = last_step_, .measures = measures_});
  }

  void note_example() {
    const Position at = input_->batches().position();
    plan::this_activity().set_example(step(), at.epoch, at.element_in_epoch);
  }

  // Called when the steps are over that a hook requested.
  void tell_profile() {
    if (const auto timeline = profile_.take()) hooks_.after_profile(step(), *timeline);
  }

  // Reports the evaluations since the last call.
  void tell_of_evaluations() {
    if (!replica_.is_chief() || !options_.take_evaluations) return;
    for (const Evaluation& evaluation : options_.take_evaluations())
      hooks_.after_evaluate(evaluation);
  }

  // --- called by its driver --- Whether a hook of any replica wants none.
  bool agree_on_no_step() override {
    const std::vector<std::string> requests =
        replica_.group().gather_text("stop_at_begin", wants_to_stop() ? "stop" : "");
    return std::ranges::any_of(requests,
                               [](const std::string& request) { return !request.empty(); });
  }

  bool wants_to_stop() const override {
    return hooks_.stop() || (options_.asked_to_end && options_.asked_to_end());
  }

  // Replicas of one process share its data, and in step the data of a process is that of all, if
  // Muster divides it.
  void begin_audit() {
    if (!options_.audit) return;
    FileSystem& fs = options_.fs != nullptr ? *options_.fs : file_systems();
    const std::vector<std::string> attempts = replica_.group().gather_text(
        "audit", replica_.is_chief()
                     ? std::to_string(ExampleAudit::next_attempt(fs, options_.model_dir))
                     : "");
    const auto attempt = std::ranges::find_if_not(attempts, &std::string::empty);
    const distribute::ReplicaPlace& place = replica_.place();
    const bool own = input_->by_process();
    if (place.local != 0 || (!own && !replica_.is_chief())) return;
    if (in_memory()) audit_ = elastic_->continue_audit(*input_);
    if (audit_) return;
    audit_ = std::make_shared<ExampleAudit>(
        fs, options_.model_dir,
        ExampleAudit::Start{.attempt = std::stoll(*attempt),
                            .step = step(),
                            .pass = input_->batches().save().value("pass", int64_t{0}),
                            .position = input_->batches().position(),
                            .task = own ? place.process : 0,
                            .tasks = own ? place.processes : 1});
    if (elastic_) elastic_->keep_audit(audit_);
  }

  StepResult make_step() override {
    if (elastic_ && speaks_here()) elastic_->note_position(*input_, examples_of_step_);
    steps_.begin_step();
    profile_.begin_step();
    trace_.start();
    hooks_.before_step(step() + 1);
    trace_.lap(StepTrace::kHooks);
    return steps_.make(*input_, non_finite_, [&] {
      return distribute::StepInput{.stop = driver_.wants_to_stop(),
                                   .save = driver_.wants_to_save(),
                                   .profile_steps = hooks_.profile_steps()};
    });
  }

  void after_step(const StepResult& made) override {
    if (audit_) audit_->note(step(), input_->batches().position(), made.rows, !made.finite);
    if (!made.finite) {
      non_finite_.note(made, [&] { return driver_.roll_back(); });
      return hooks_.step_left_out();
    }
    ++steps_made_;
    hooks_.after_step({.global_step = step(),
                       .loss = made.loss,
                       .rows = made.rows,
                       .reduction_time = replica_.last_times().reduction,
                       .metrics = steps_.metrics(),
                       .summaries = steps_.summaries(),
                       .skipped_steps = non_finite_.skipped(),
                       .roll_backs = non_finite_.roll_backs()});
    tell_of_evaluations();
    trace_.lap(StepTrace::kHooks);
    trace_.count_step();
    plan::this_activity().end_step(step(), trace_.last());
    if (live_.wants_news()) tell_live();
    if (plan::this_activity().wants_example()) note_example();
  }

  void after_step_and_save(const StepResult& made) override {
    profile_.end_step(step());
    tell_profile();
    profile_.follow(made.profile_steps);
  }

  Saved write(const SaveWay& way) override {
    trace_.start();
    if (audit_) audit_->flush();
    if (replica_.is_chief()) hooks_.before_save(step());
    const Saved made =
        engine_.save({.inputs = [&] { return positions_of(*input_, examples_of_step_); },
                      .epoch = input_->batches().position().epoch,
                      .writer = [&]() -> CheckpointWriter& { return saves_.writer(); },
                      .saved = [this](const std::string& prefix) { saved(prefix); },
                      .model_dir = options_.model_dir,
                      .fs = options_.fs,
                      .way = way});
    trace_.lap(StepTrace::kSaving);
    return made;
  }

  void after_save(const Saved& made) override {
    if (options_.after_save) options_.after_save(step(), made, replica_);
  }

  void after_evaluation() override {
    if (!options_.after_save) return;
    // It takes all threads for itself.
    if (num_threads() != threads_) set_threads(threads_);
    tell_of_evaluations();
    trace_.lap(StepTrace::kEvaluating);
  }

  void after_pause(double seconds) override { hooks_.after_pause(Seconds(seconds)); }

  bool elastic() const override { return elastic_.has_value(); }
  bool has_newcomers() const override { return elastic_ && elastic_->has_newcomers(); }
  bool can_spare(int leaving) const override { return elastic_->can_spare(leaving); }
  void before_regroup() override {
    elastic_->remember_together(*input_, examples_of_step_, last_step_);
    keep_saves();
  }

  const TrainerOptions& options_;
  LiveTask& live_;
  Replica& replica_;
  Engine engine_;
  const std::unique_ptr<Pace> pace_;
  Clock& clock_;
  StepTrace trace_;
  ModelTraining steps_;
  NonFiniteSteps non_finite_;
  HookList hooks_;
  StepProfile profile_;
  const int threads_ = num_threads();  // this replica's
  RunSaves saves_;
  RunDriver driver_;
  std::optional<ReplicaInput> input_;
  Attempt* attempt_ = nullptr;            // of an elastic run
  std::optional<ElasticMember> elastic_;  // of an elastic run
  bool hooks_begun_ = false;
  std::shared_ptr<ExampleAudit> audit_;  // of the replicas that write one
  int64_t steps_made_ = 0;
  int64_t last_step_ = -1;
  int64_t examples_of_step_ = 0;
  int64_t live_tells_ = 0;
  std::map<std::string, double> measures_;  // as the live view was told last
};

// A task that was asked to stop while it evaluates, or while it waits for a task that does, has
// nothing to save; and when all tasks are asked, the end of the others is not a failure.
Error as_stop(const Error& error, bool idle, const std::string& hint) {
  const int signal = stop_signal();
  const bool evaluating = idle && error.kind() == ErrorKind::kCancelled;
  if (signal == 0 || !(evaluating || error.kind() == ErrorKind::kPeerLost)) return error;
  return Error(ErrorKind::kCancelled,
               fmt::format("stopped by {}: {}", stop_signal_name(), error.message()), hint);
}

// What follows when this worker stops although it has saved nothing.
std::string hint_of_stop(const TrainerOptions& options, const Error& error) {
  const auto& elastic = options.start.elastic;
  if (!elastic || options.start.cluster.is_chief || !elastic->goes_on_after(error))
    return "run the same command again to continue from the last checkpoint";
  return fmt::format(
      "the other workers of this elastic run continue without this one while at least {} {} left",
      elastic->min_workers(), elastic->min_workers() == 1 ? "is" : "are");
}

}  // namespace

TrainResult train_replica(const ModelFn& model_fn, const InputFn& input_fn,
                          const TrainerOptions& options, Replica& replica,
                          const std::function<void()>& failing, Attempt* attempt) {
  const distribute::ReplicaPlace& place = replica.place();
  const plan::ActivityScope activity(place.name(), live_run_name(options.model_dir, place));
  LiveTask live({.model_dir = options.model_dir, .fs = options.fs, .every = live_seconds()}, place);
  Run run(model_fn, options, replica, attempt, live);
  TrainResult result;
  try {
    guarded(
        replica, [&] { result = run(input_fn); }, failing,
        [&] { return fmt::format("after step {}", run.step()); });
  } catch (const Error& error) {
    const bool goes_on = run.goes_on_after(error);
    run.end_save(goes_on);
    if (attempt != nullptr) {
      attempt->steps = run.steps_made();
      attempt->saved = run.has_saved();
    }
    // The run is not over: hooks begin again with the next group.
    if (goes_on) {
      live.leave();
      throw;
    }
    Error end = as_stop(error, run.idle(), hint_of_stop(options, error));
    if (end.kind() == ErrorKind::kPeerLost)
      end = end.with_detail(fmt::format("this task is at step {}", run.step()));
    live.end(&end);
    run.on_error(end);
    throw end;
  } catch (...) {
    run.end_save(/*goes_on=*/false);
    const Error error = current_error();
    live.end(&error);
    run.on_error(error);
    throw;
  }
  return result;
}

}  // namespace muster::inline v0_1::internal
