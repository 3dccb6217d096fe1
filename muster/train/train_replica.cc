#include "muster/train/internal/train_replica.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/distribute/agree.h"
#include "muster/distribute/replica_input.h"
#include "muster/files/file_systems.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/device_copier.h"
#include "muster/tensor/element_spec.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/train/engine.h"
#include "muster/train/hook_list.h"
#include "muster/train/internal/models_graph.h"
#include "muster/train/internal/non_finite_steps.h"
#include "muster/train/internal/run_input.h"
#include "muster/train/internal/run_saves.h"
#include "muster/train/internal/run_settings.h"
#include "muster/train/internal/step_metrics.h"
#include "muster/train/internal/step_profile.h"
#include "muster/train/model_call.h"
#include "muster/train/model_context.h"
#include "muster/train/model_steps.h"
#include "muster/train/own_training.h"
#include "muster/train/step_summaries.h"
#include "muster/train/step_timer.h"
#include "muster/train/step_trace.h"
#include "muster/train/stop_reason.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1::internal {
namespace {

using distribute::Phase;
using distribute::Replica;
using distribute::ReplicaInput;
using distribute::SharedRun;
using distribute::StepResult;
using nlohmann::json;

class Run {
 public:
  Run(const ModelFn& model_fn, const TrainerOptions& options, Replica& replica)
      : model_fn_(model_fn),
        options_(options),
        replica_(replica),
        engine_(replica, options.accumulate_steps),
        clock_(options.clock != nullptr ? *options.clock : system_clock()),
        context_(Mode::kTrain, replica.variables(), replica.seed(), *options.params),
        summaries_(context_.summary(), options.summary_every_steps, replica.is_chief()),
        copy_(replica.device()),
        non_finite_(options, engine_),
        profile_(replica, trace_, clock_),
        saves_(options, engine_, hooks_, clock_) {
    StepContext::of(context_.calls())
        .set_replicas(replica.num_replicas_in_sync(), [&replica](const Tensor& value) {
          return distribute::all_reduce(replica.exchange(), distribute::ReduceOp::kSum, value);
        });
  }

  TrainResult operator()(const InputFn& input_fn) {
    if (shared_ != nullptr) check_shared();
    replica_.group().report(Phase::kBuilding, 0);
    distribute::check_same(replica_.group(), replica_.place(),
                           settings_of(options_, replica_.seed()));
    // In the group already, so that the others learn why it fails.
    if (saves_.enabled() && replica_.is_chief()) while_idle([&] { saves_.open(); });
    restored_ = engine_.find_checkpoint(saves_.checkpoints());
    if (options_.warm_start_from) {
      engine_.warm_start(*options_.warm_start_from,
                         options_.fs != nullptr ? *options_.fs : file_systems());
    }
    if (options_.max_steps && engine_.step() >= *options_.max_steps) return nothing_to_do();
    const Dataset dataset = input_fn(replica_.input_context());
    const bool anew = options_.earlier_call && options_.earlier_call->input_ended &&
                      options_.earlier_call->step == engine_.step();
    std::optional<ReplicaInput> input;
    const auto open = [&](int64_t pass) -> ReplicaInput& {
      return input.emplace(replica_, dataset, input_fn.shards_itself(),
                           data::DistributeOptions{.pass = pass});
    };
    if (!open(anew ? next_pass(engine_) : 0).agree_on_form()) {
      if (shared_ != nullptr && !replica_.is_chief()) return without_data(dataset);
      throw invalid_argument(
          "the input function gave no data: " + dataset.describe(),
          "check the data directory and the transformations; take(0), skip() or a filter may have "
          "removed everything");
    }
    examples_of_step_ = examples_of_step(dataset, replica_, options_.accumulate_steps);
    if (shared_ != nullptr) shared_->set_batch_form(encode_batch_spec(input->batches().peek()));
    build(input->batches().peek());
    if (shared_ != nullptr) {
      // What it joins is in no checkpoint: it saves at once.
      if (replica_.is_chief() && shared_->live()) restored_ = false;
      begin_shared(*input, options_.restart_input || anew);
    } else if (restored_) {
      continue_input(engine_, *input, options_.restart_input || anew, examples_of_step_);
      if (!anew && is_used_up(*input)) open(next_pass(engine_)).agree_on_form();
    }
    if (replica_.is_chief() && input->batches().position().elements_total == 0)
      tell_of_pass(*input);
    TrainResult result{.global_step = engine_.step()};
    const int64_t start_step = engine_.step();
    last_step_ = last_step_from(start_step).value_or(-1);
    loop(*input, &result);
    result.global_step = engine_.step();
    result.steps = engine_.step() - start_step;
    result.skipped_steps = non_finite_.skipped();
    result.roll_backs = non_finite_.roll_backs();
    if (speaks_here()) warn_of_short_input(result);
    if (replica_.is_chief()) tell_of_input(*input);
    // What takes long now is not stuck: the last evaluation comes, and hooks may export.
    replica_.group().report(Phase::kEvaluating, engine_.step());
    if (options_.at_end)
      while_idle([&] { options_.at_end(engine_.step(), result.steps > 0, replica_); });
    tell_of_evaluations();
    hooks_.end(engine_.step());
    if (options_.trace && replica_.is_chief()) log::info(trace_.report());
    engine_.finish();
    return result;
  }

  // The run ended with `error`, which the other replicas know by now.
  void on_error(const Error& error) noexcept { hooks_.on_error(error); }

  int64_t step() const { return engine_.step(); }
  // By this replica, since the run began.
  int64_t steps_made() const { return steps_made_; }
  bool saved() const { return saves_.any(); }
  // Whether it does not train: it evaluates, or waits for model_dir.
  bool idle() const { return idle_; }

 private:
  // One replica speaks for the process.
  bool speaks_here() const { return replica_.place().local == 0; }

  // It stays idle when `fn` throws, since then the run is over.
  template <typename Fn>
  void while_idle(Fn fn) {
    idle_ = true;
    fn();
    idle_ = false;
  }

  // Whether an earlier call of this program came here, and left nothing of the input.
  bool is_used_up(ReplicaInput& input) const {
    return options_.earlier_call && options_.earlier_call->step == engine_.step() &&
           !options_.restart_input && !input.agree_on_form();
  }

  // As tf.estimator, which calls the input function anew.
  void tell_of_pass(const ReplicaInput& input) const {
    const int64_t pass = input.batches().save().value("pass", int64_t{0});
    if (pass == 0) return;
    log::info(fmt::format("the input had ended at step {}: it begins anew, in the order of pass {}",
                          engine_.step(), pass));
  }

  void warn_of_short_input(const TrainResult& result) const {
    if (result.steps == 0 && result.end_of_input) {
      log::warning(
          fmt::format("no step was made: the run in model_dir had come to the end of its input at "
                      "step {}; the next train() of this program begins the input anew, and "
                      "RunConfig.restart_input does so at once",
                      engine_.step()));
    } else if (result.end_of_input && step() < last_step_ && shared_ == nullptr) {
      log::warning(
          fmt::format("the input was used up at step {}, before step {}: repeat() it to go on",
                      step(), last_step_));
    }
  }

  // Where the time of the input went, when the model waited for it long enough to matter.
  void tell_of_input(const ReplicaInput& input) const {
    const double waited = trace_.seconds(StepTrace::kInput), total = trace_.total();
    constexpr double kWorthReading = 1.0, kShare = 0.1;
    if (waited < kWorthReading || waited < kShare * total) return;
    log::info(fmt::format("input: the model waited {:.1f} s of {:.1f} s ({:.0f} %) for data; {}",
                          waited, total, 100 * waited / total,
                          describe_longest(input.batches().times(), /*most=*/3)));
  }

  // max_steps is reached: neither the input nor the model is looked at.
  TrainResult nothing_to_do() {
    if (speaks_here()) {
      log::info(fmt::format("the checkpoint is at step {}, max_steps is {}: nothing to train",
                            engine_.step(), *options_.max_steps));
    }
    if (options_.at_end) while_idle([&] { options_.at_end(engine_.step(), false, replica_); });
    engine_.finish();
    return {.global_step = engine_.step()};
  }

  // Refuses what workers at their own pace cannot do.
  void check_shared() const {
    if (options_.non_finite == NonFinitePolicy::kRollBack) {
      throw invalid_argument(
          "not supported: NonFinitePolicy::kRollBack on parameter servers, where others train on "
          "meanwhile",
          "take NonFinitePolicy::kSkip, or kStop, which is the default");
    }
  }

  // The others train on theirs.
  TrainResult without_data(const Dataset& dataset) {
    log::warning("there is no data for this worker, and the others train without it: " +
                 dataset.describe());
    (void)engine_.begin_shared([](int64_t) { return std::nullopt; }, options_.restart_input);
    end_steps(SharedRun::End::kNoMoreData);
    engine_.finish();
    return {.global_step = engine_.step(), .end_of_input = true};
  }

  void build(const Element& element) {
    batch_ = to_batch(copy_(element));
    begin_step(context_, 0, replica_.replica_id());
    spec_ = call_model_to_build(model_fn_, batch_, Mode::kTrain, context_, &replica_.place());
    engine_.build(spec_.train_op);
    if (replica_.is_chief() && options_.summary_every_steps > 0) graph_ = graph_of_models(context_);
    if (replica_.is_chief()) {
      hooks_.add(spec_.training_chief_hooks);
      hooks_.add(options_.chief_hooks);
    }
    if (speaks_here()) {
      hooks_.add(options_.hooks);
      hooks_.add(spec_.training_hooks);
    }
    spec_ = {};
  }

  // The step at which a run ends that begins at this one; nothing where its input ends it.
  std::optional<int64_t> last_step_from(int64_t step) const {
    std::optional<int64_t> last = options_.max_steps;
    if (options_.steps && (!last || step + *options_.steps < *last)) last = step + *options_.steps;
    return last;
  }

  // Goes on where the workers are that train at their own pace.
  void begin_shared(ReplicaInput& input, bool restart_input) {
    if (options_.restart_input && replica_.is_chief() && !shared_->live() &&
        engine_.restored_inputs().contains("train"))
      log::info(
          fmt::format("RunConfig.restart_input is set: each of the {} workers reads its data "
                      "from the beginning, and not from where {} says",
                      replica_.place().processes, engine_.restored_from()));
    const std::string position =
        engine_.begin_shared([this](int64_t step) { return last_step_from(step); }, restart_input);
    if (!position.empty()) {
      continue_at(engine_, input, position);
    } else if (!replica_.is_chief()) {
      log::info(fmt::format("joined the run at step {}", engine_.step()));
    } else if (!engine_.restored_from().empty()) {
      tell_restored(engine_, input);
    }
    shared_->set_position([&input] { return input.batches().save().dump(); });
  }

  // Batches until the data ends, where that can be told; else below 0. Of processes with data of
  // their own, the last one to end decides, which this one does not know.
  int64_t batches_left(const ReplicaInput& input) const {
    if (shared_ != nullptr) return kUnknown;
    if (input.by_process() && replica_.place().processes > 1) return kUnknown;
    return input.batches().remaining();
  }

  void begin_hooks(const ReplicaInput& input) {
    const int64_t k = options_.accumulate_steps, batches = batches_left(input);
    const int64_t left = batches < 0 ? batches : (batches + k - 1) / k;
    const bool input_ends = left >= 0 && (last_step_ < 0 || step() + left < last_step_);
    hooks_.begin({.start_step = step(),
                  .last_step = input_ends ? step() + left : last_step_,
                  .num_replicas = replica_.num_replicas_in_sync(),
                  .is_chief = replica_.is_chief(),
                  .model_dir = options_.model_dir,
                  .graph = graph_ ? &*graph_ : nullptr,
                  .state = [this] {
                    Checkpoint now{.global_step = step()};
                    for (const auto& [name, tensor] : replica_.state().tensors())
                      now.tensors[name] = tensor.clone();
                    return now;
                  }});
  }

  // Whether a hook of any replica wants no step at all.
  bool agree_on_no_step() {
    const std::vector<std::string> requests =
        replica_.group().gather_text("stop_at_begin", hooks_.stop() ? "stop" : "");
    return std::ranges::any_of(requests,
                               [](const std::string& request) { return !request.empty(); });
  }

  // A request to stop that nobody else has to agree to: several replicas agree with their next
  // step.
  bool stops_alone() const {
    return replica_.num_replicas_in_sync() == 1 && (hooks_.stop() || stop_signal() != 0);
  }

  void loop(ReplicaInput& input, TrainResult* result) {
    // A hook may wait for another run: it has the patience that building has.
    replica_.group().report(Phase::kBuilding, step());
    begin_hooks(input);
    replica_.group().report(Phase::kTraining, step());
    saves_.begin();
    if (saves_.takes_part() && !restored_) save(input, {.notify = false, .must = true});
    saves_.agree_on_patience();
    result->stopped = agree_on_no_step();
    StepTimer metrics_due(options_.metrics_every_steps);
    while (!result->stopped && has_step()) {
      measured_ |= is_near(metrics_due);
      profile_.begin_step();
      trace_.start();
      hooks_.before_step(step() + 1);
      trace_.lap(StepTrace::kHooks);
      const StepResult made = train_step(input);
      if (!made.any_data) {
        result->end_of_input = true;
        break;
      }
      if (!made.finite) {
        non_finite_.note(made, [&] { return saves_.roll_back(); });
        hooks_.step_left_out();
      } else {
        ++steps_made_;
        tell_hooks(made);
      }
      // Who wants to stop behind a step means one that was made: all replicas go on to it.
      bool stops = (made.stop && made.finite) || stops_alone();
      if (saves_.due(made.save)) save(input, {.notify = !stops});
      profile_.end_step(step());
      tell_profile();
      profile_.follow(made.profile_steps);
      stops |= stops_alone();
      if (stops) {
        end_on_request(input);
        result->stopped = true;
      }
    }
    if (shared_ != nullptr && !ended_) {
      // It waited for others, and was told to stop meanwhile.
      if (stop_signal() != 0) end_on_request(input);
      end_steps(result->end_of_input ? SharedRun::End::kNoMoreData
                : result->stopped    ? SharedRun::End::kAsked
                                     : SharedRun::End::kOver,
                [&] {
                  if (saves_.due(saves_.wanted_by_clock())) save(input, {});
                });
      if (stop_signal() != 0 && replica_.is_chief()) end_on_request(input);
    }
    if (saves_.lacks_step()) save(input, {.must = true});
    profile_.end_run();
    tell_profile();
  }

  // Whether metrics are due with the step to come. Of workers at their own pace nobody knows which
  // number that has: it is one of the next few.
  bool is_near(StepTimer& due) const {
    if (shared_ == nullptr) return due.due(step() + 1);
    const int64_t every = options_.metrics_every_steps;
    if (every <= 0) return false;
    const int64_t few = 3 * replica_.place().processes;
    return step() % every + few >= every || step() % every < few;
  }

  // Whether there is a step to make. Where workers train at their own pace, the ledger knows.
  bool has_step() {
    if (shared_ != nullptr) return shared_->begin_step();
    return last_step_ < 0 || step() < last_step_;
  }

  // `others_go_on` is called now and then while others make steps.
  void end_steps(SharedRun::End end, const std::function<void()>& others_go_on = {}) {
    replica_.group().report(Phase::kWaiting, step());
    engine_.follow(shared_->end_steps(end, [&](int64_t now) {
      engine_.follow(now);
      if (others_go_on) others_go_on();
    }));
    ended_ = true;
  }

  // Where the steps are over that a hook asked for.
  void tell_profile() {
    if (const auto timeline = profile_.take()) hooks_.after_profile(step(), *timeline);
  }

  // The batches of one step.
  StepResult train_step(ReplicaInput& input) {
    metrics_.clear();
    non_finite_.begin_step();
    StepResult made = train_batch(input);
    while (!made.updated) {
      replica_.group().report(Phase::kTraining, step());
      made = train_batch(input);
    }
    if (made.any_data) replica_.group().report(Phase::kTraining, step());
    return made;
  }

  void tell_hooks(const StepResult& made) {
    if (measured_) {
      metrics_.merge(replica_.exchange());
      for (const auto& [name, rate] : replica_.learning_rates()) metrics_.add_result(name, rate);
    }
    hooks_.after_step({.global_step = step(),
                       .loss = made.loss,
                       .rows = made.rows,
                       .reduction_seconds = replica_.last_times().reduction,
                       .metrics = measured_ ? std::optional(metrics_.results()) : std::nullopt,
                       .summaries = summaries(),
                       .skipped_steps = non_finite_.skipped(),
                       .roll_backs = non_finite_.roll_backs()});
    measured_ = false;
    tell_of_evaluations();
    trace_.lap(StepTrace::kHooks);
    trace_.count_step();
    let_go();
  }

  // Those of this step, where they are due; those of workers at their own pace tell how far they
  // are apart.
  const std::vector<formats::SummaryValue>* summaries() {
    const auto* values = summaries_.merge(replica_.exchange());
    if (values == nullptr || shared_ == nullptr || !replica_.is_chief()) return values;
    shared_summaries_ = *values;
    for (const auto& [name, value] : shared_->measures())
      shared_summaries_.push_back({name, static_cast<float>(value)});
    return &shared_summaries_;
  }

  // Of those that were made since the last call.
  void tell_of_evaluations() {
    if (!replica_.is_chief() || !options_.take_evaluations) return;
    for (const Evaluation& evaluation : options_.take_evaluations())
      hooks_.after_evaluate(evaluation);
  }

  // One batch of a step; the last one, or where the data ends, makes the update.
  StepResult train_batch(ReplicaInput& input) {
    let_go();
    trace_.start();
    Element element;
    const bool has_data = input.batches().next(&element);
    if (!has_data && replica_.num_replicas_in_sync() == 1) {
      const StepResult rest = engine_.apply_accumulated();
      if (!rest.updated) return {.any_data = false};
      trace_.lap(replica_.last_times());
      return rest;
    }
    batch_ = to_batch(copy_(element));
    trace_.lap(StepTrace::kInput);
    begin_step(context_, step(), replica_.replica_id(), replica_.accumulated());
    const int64_t rows = has_data ? batch_.rows() : 0;
    summaries_.begin_batch(step() + 1, replica_.accumulated(), rows);
    const ZeroRowGuard guard(replica_.variables(), batch_.rows());
    {
      const auto watch = own_training_.begin();
      spec_ = call_model(model_fn_, batch_, Mode::kTrain, context_,
                         {.where = "at step", .number = step() + 1, .replica = &replica_.place()});
      own_training_.check(*watch, &batch_, !spec_.train_op.entries.empty());
    }
    trace_.lap(StepTrace::kForward);
    const StepResult made =
        engine_.train({.train_op = &spec_.train_op,
                       .loss = spec_.loss,
                       .reduction = spec_.loss_reduction,
                       .weight = spec_.loss_weight.value_or(static_cast<double>(rows)),
                       .has_data = has_data,
                       .rows = rows,
                       .stop = hooks_.stop() || stop_signal() != 0,
                       .save = saves_.wanted_by_clock(),
                       .profile_steps = hooks_.profile_steps()},
                      &batch_);
    trace_.lap(replica_.last_times());
    if (measured_) metrics_.add(spec_.train_metrics);
    return made;
  }

  // Before the next ones are made: they then get the same memory, still in the cache.
  void let_go() {
    spec_ = {};
    batch_ = {};
  }

  // A hook's request ends the run normally; a signal ends it with Cancelled, or, in the tasks that
  // got none, with the request to be restarted together with the one that did.
  void end_on_request(ReplicaInput& input) {
    const auto reason = StopReason::agree(replica_.group(), stop_signal() != 0);
    if (!reason) return;  // a hook's request, here or elsewhere
    if (shared_ != nullptr && !ended_) end_steps(SharedRun::End::kTold);
    if (saves_.lacks_step()) save(input, {.notify = false, .must = true});
    const std::string saved = saves_.takes_part() ? fmt::format("after saving step {}", step())
                              : saves_.enabled()
                                  ? fmt::format("at step {}; the chief saves", step())
                                  : fmt::format("at step {}, without checkpoints", step());
    engine_.finish();
    throw reason->error(saved, saves_.enabled());
  }

  struct Save {
    bool notify = true;  // TrainerOptions::after_save is called
    bool must = false;   // when it fails, the run ends
  };

  void save(ReplicaInput& input, const Save& how) {
    trace_.start();
    const TimePoint begun = clock_.now();
    const Saved made = saves_.save(input, examples_of_step_, how.must);
    trace_.lap(StepTrace::kSaving);
    if (made.saved && how.notify && options_.after_save) {
      try {
        while_idle([&] { options_.after_save(step(), made.prefix, replica_); });
      } catch (const Error& error) {
        // Others train on meanwhile: there is more to save than what was evaluated.
        if (shared_ == nullptr || error.kind() != ErrorKind::kCancelled || stop_signal() == 0)
          throw;
        idle_ = false;
      }
      // An evaluation takes all threads for itself.
      if (num_threads() != threads_) set_threads(threads_);
      tell_of_evaluations();
      trace_.lap(StepTrace::kEvaluating);
    }
    replica_.group().report(Phase::kTraining, step());
    const double seconds = to_seconds(clock_.now() - begun);
    // Where others make steps meanwhile, no time is lost.
    if (shared_ == nullptr) hooks_.after_pause(seconds);
  }

  const ModelFn& model_fn_;
  const TrainerOptions& options_;
  Replica& replica_;
  Engine engine_;
  Clock& clock_;
  ModelContext context_;
  OwnTraining own_training_{replica_, "the model function"};
  StepSummaries summaries_;
  std::optional<formats::GraphDef> graph_;  // on the chief, for its hooks
  const DeviceCopier copy_;
  NonFiniteSteps non_finite_;
  HookList hooks_;
  StepTrace trace_;
  StepProfile profile_;
  const int threads_ = num_threads();  // this replica's
  RunSaves saves_;
  bool restored_ = false;
  SharedRun* const shared_ = replica_.shared();  // of workers at their own pace
  bool ended_ = false;                           // its steps are over
  std::vector<formats::SummaryValue> shared_summaries_;
  int64_t steps_made_ = 0;
  bool idle_ = false;
  bool measured_ = false;  // metrics of the step under way are wanted
  int64_t last_step_ = -1;
  int64_t examples_of_step_ = 0;
  StepMetrics metrics_;  // of the last step that was measured
  Batch batch_;          // of the step under way
  EstimatorSpec spec_;   // likewise
};

// A task that was told to stop while it evaluates, or while it waits for one that does, has nothing
// to save; and when all tasks are told, the end of the others is no failure.
Error as_stop(const Error& error, bool idle) {
  const int signal = stop_signal();
  const bool evaluating = idle && error.kind() == ErrorKind::kCancelled;
  if (signal == 0 || !(evaluating || error.kind() == ErrorKind::kPeerLost)) return error;
  return Error(ErrorKind::kCancelled,
               fmt::format("stopped by {}: {}", stop_signal_name(), error.message()),
               "run the same command again to continue from the last checkpoint");
}

}  // namespace

TrainResult train_replica(const ModelFn& model_fn, const InputFn& input_fn,
                          const TrainerOptions& options, Replica& replica,
                          const std::function<void()>& failing, Attempt* attempt) {
  Run run(model_fn, options, replica);
  TrainResult result;
  try {
    guarded(
        replica, [&] { result = run(input_fn); }, failing,
        [&] { return fmt::format("after step {}", run.step()); });
  } catch (const Error& error) {
    if (attempt != nullptr) *attempt = {.steps = run.steps_made(), .saved = run.saved()};
    Error end = as_stop(error, run.idle());
    if (end.kind() == ErrorKind::kPeerLost)
      end = end.with_detail(fmt::format("this task is at step {}", run.step()));
    run.on_error(end);
    throw end;
  } catch (...) {
    run.on_error(current_error());
    throw;
  }
  return result;
}

}  // namespace muster::inline v0_1::internal
