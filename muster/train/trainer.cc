#include "muster/train/trainer.h"


#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/checkpoint/directory_lock.h"
#include "muster/distribute/replica_context.h"
#include "muster/distribute/replica_threads.h"
#include "muster/distribute/restored_state.h"
#include "muster/tensor/device_copier.h"
#include "muster/tensor/finite.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/train/internal/feed.h"
#include "muster/train/internal/save_timer.h"
#include "muster/train/model_call.h"
#include "muster/train/model_context.h"
#include "muster/train/step_trace.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {
namespace {

using distribute::Phase;
using distribute::Session;
using nlohmann::json;

const char* name_of(int signal) { return signal == SIGINT ? "Ctrl-C" : "SIGTERM"; }

class Run {
 public:
  Run(const ModelFn& model_fn, const TrainerOptions& options, Session& session,
      CheckpointManager& checkpoints)
      : model_fn_(model_fn),
        options_(options),
        session_(session),
        checkpoints_(checkpoints),
        clock_(options.clock != nullptr ? *options.clock : system_clock()),
        context_(Mode::kTrain, session.variables(), session.seed(), *options.params),
        copy_(session.device()) {
    session_.accumulate(options.accumulate_steps);
    context_.calls().set_replicas(session.num_replicas_in_sync(), [&session](const Tensor& value) {
      return distribute::all_reduce(session, distribute::ReduceOp::kSum, value);
    });
  }

  TrainResult operator()(const InputFn& input_fn) {
    load();
    if (options_.max_steps && step_ >= *options_.max_steps) return nothing_to_do();
    Feed feed(input_fn, session_);
    build(feed.first());
    restore(feed);
    TrainResult result{.global_step = step_};
    const int64_t start_step = step_;
    last_step_ = options_.max_steps.value_or(-1);
    if (options_.steps && (last_step_ < 0 || start_step + *options_.steps < last_step_)) {
      last_step_ = start_step + *options_.steps;
    }
    loop(feed, &result);
    result.global_step = step_;
    result.steps = step_ - start_step;
    if (session_.local_replica() == 0) warn_of_short_input(result);
    if (session_.is_chief()) tell_of_input(feed);
    for (const auto& hook : hooks_) hook->end(step_);
    if (options_.trace && session_.is_chief()) log::info(trace_.report());
    if (options_.at_end) options_.at_end(step_, result.steps > 0, session_);
    session_.finish();
    return result;
  }

  int64_t step() const { return step_; }
  // Checked before every save.
  void hold(const DirectoryLock& lock) { lock_ = &lock; }

 private:
  // The chief finds the newest good checkpoint; all learn its step.
  void load() {
    session_.report(Phase::kBuilding, 0);
    if (session_.is_chief()) {
      loaded_ = checkpoints_.load_latest();
      if (loaded_) step_ = loaded_->checkpoint.global_step;
    }
    const std::string mine = session_.is_chief() ? std::to_string(step_) : "";
    for (const std::string& step : session_.gather_text("start_step", mine)) {
      if (!step.empty()) step_ = std::stoll(step);
    }
  }

  void warn_of_short_input(const TrainResult& result) const {
    if (result.steps == 0) {
      log::warning(
          fmt::format("no step was made: at step {} the input is used up; for more, give "
                      "it more epochs, or train in another model_dir",
                      step_));
    } else if (result.end_of_input && last_step_ >= 0) {
      log::warning(
          fmt::format("the input was used up at step {}, before step {}: repeat() it to go on",
                      step_, last_step_));
    }
  }

  // Where the time of the input went, when the model waited for it long enough to matter.
  void tell_of_input(const Feed& feed) const {
    const double waited = trace_.seconds(StepTrace::kInput), total = trace_.total();
    constexpr double kWorthReading = 1.0, kShare = 0.1;
    if (waited < kWorthReading || waited < kShare * total) return;
    log::info(fmt::format("input: the model waited {:.1f} s of {:.1f} s ({:.0f} %) for data; {}",
                          waited, total, 100 * waited / total,
                          describe_longest(feed.times(), /*most=*/3)));
  }

  // max_steps is reached: neither the input nor the model is looked at.
  TrainResult nothing_to_do() {
    if (session_.local_replica() == 0) {
      log::info(fmt::format("the checkpoint is at step {}, max_steps is {}: nothing to train",
                            step_, *options_.max_steps));
    }
    if (options_.at_end) options_.at_end(step_, false, session_);
    session_.finish();
    return {.global_step = step_};
  }

  void build(const Element& element) {
    batch_ = to_batch(copy_(element));
    context_.begin_step(0, session_.replica_id());
    {
      torch::NoGradGuard no_grad;
      spec_ = call_model(model_fn_, batch_, Mode::kTrain, context_, "while the model was built");
    }
    session_.finish_build(spec_.train_op);
    // One replica speaks for the process.
    if (session_.local_replica() == 0) {
      hooks_ = options_.hooks;
      hooks_.insert(hooks_.end(), spec_.training_hooks.begin(), spec_.training_hooks.end());
    }
    if (session_.is_chief()) {
      hooks_.insert(hooks_.end(), options_.chief_hooks.begin(), options_.chief_hooks.end());
      hooks_.insert(hooks_.end(), spec_.training_chief_hooks.begin(),
                    spec_.training_chief_hooks.end());
    }
    spec_ = {};
  }

  // Everybody gets what the chief has loaded.
  void restore(Feed& feed) {
    json note = {{"step", 0}};
    if (session_.is_chief()) {
      if (auto loaded = std::exchange(loaded_, std::nullopt)) {
        distribute::restore_state(session_, loaded->checkpoint, loaded->prefix);
        note = {{"step", loaded->checkpoint.global_step},
                {"inputs", json::parse(loaded->checkpoint.inputs)},
                {"prefix", loaded->prefix}};
      }
    }
    note = json::parse(session_.share_state(note.dump()));
    step_ = note.at("step").get<int64_t>();
    restored_ = note.contains("prefix");
    if (!restored_) return;
    if (note.at("inputs").contains("train")) restore_input(feed, note);
    if (session_.is_chief()) {
      const Position position = feed.position();
      const std::string prefix = note.at("prefix");
      log::event("restored",
                 {{"checkpoint", prefix},
                  {"global_step", step_},
                  {"epoch", position.epoch},
                  {"sample", position.element_in_epoch}},
                 fmt::format("restored {}: continuing after step {}, at epoch {}, sample {}",
                             prefix, step_, position.epoch, position.element_in_epoch));
    }
  }

  void restore_input(Feed& feed, const json& note) {
    const uint64_t own = feed.seed();
    try {
      feed.restore(note.at("inputs").at("train"));
    } catch (const Error& error) {
      throw Error(error.kind(),
                  fmt::format("{} cannot be continued with this input: {}",
                              note.at("prefix").get<std::string>(), error.message()),
                  "train with the data and the input function the run began with, or in another "
                  "model_dir; " +
                      error.hint());
    }
    const uint64_t seed = feed.seed();
    if (seed == own || !session_.is_chief()) return;
    log::warning(own == session_.seed()
                     ? fmt::format("the run began with seed {}, now it is {}: the order of the "
                                   "data stays that of {}, what layers draw changes",
                                   seed, own, seed)
                     : fmt::format("the run began with another seed than {}: the order of the data "
                                   "stays what it was, what layers draw changes",
                                   session_.seed()));
  }

  void loop(Feed& feed, TrainResult* result) {
    session_.report(Phase::kTraining, step_);
    SaveTimer timer(options_.save_checkpoints_steps, options_.save_checkpoints_secs, clock_, step_);
    const int64_t k = options_.accumulate_steps, batches = feed.batches_left();
    const int64_t left = batches < 0 ? batches : (batches + k - 1) / k;
    const bool input_ends = left >= 0 && (last_step_ < 0 || step_ + left < last_step_);
    for (const auto& hook : hooks_) {
      hook->begin({.start_step = step_,
                   .last_step = input_ends ? step_ + left : last_step_,
                   .num_replicas = session_.num_replicas_in_sync(),
                   .is_chief = session_.is_chief(),
                   .model_dir = options_.model_dir});
    }
    if (timer.enabled() && !restored_) save(feed, timer, /*notify=*/false);
    bool stop_wanted = false;
    while (last_step_ < 0 || step_ < last_step_) {
      const bool measured =
          options_.metrics_every_steps > 0 &&
          (step_ == result->global_step || (step_ + 1) % options_.metrics_every_steps == 0);
      seen_.clear();
      auto step = train_batch(feed, timer, stop_wanted, measured);
      while (!step.updated) {
        session_.report(Phase::kTraining, step_);
        step = train_batch(feed, timer, stop_wanted, measured);
      }
      if (!step.any_data) {
        result->end_of_input = true;
        break;
      }
      ++step_;
      session_.report(Phase::kTraining, step_);
      if (measured) measure();
      const StepInfo info{.global_step = step_,
                          .loss = step.loss,
                          .rows = step.rows,
                          .reduction_seconds = session_.last_times().reduction,
                          .metrics = measured ? &metrics_ : nullptr,
                          .stop = &stop_wanted};
      for (const auto& hook : hooks_) hook->after_step(info);
      trace_.lap(StepTrace::kHooks);
      trace_.count_step();
      let_go();
      // Several replicas agree on the end with their next step; one need not ask.
      const bool stops = step.stop || (session_.num_replicas_in_sync() == 1 &&
                                       (stop_wanted || stop_signal() != 0));
      if (timer.due(step_, step.save)) save(feed, timer, /*notify=*/!stops);
      if (stops) {
        end_on_request(feed, timer);
        break;
      }
    }
    if (timer.enabled() && timer.saved_step() != step_) save(feed, timer, /*notify=*/true);
  }

  // One batch of a step; the last one, or where the data ends, makes the update.
  distribute::StepResult train_batch(Feed& feed, const SaveTimer& timer, bool stop_wanted,
                                     bool measured) {
    let_go();
    trace_.start();
    Element element;
    const bool has_data = feed.next(&element);
    if (!has_data && session_.num_replicas_in_sync() == 1) {
      const auto rest = told_with_cause([&] { return session_.apply_accumulated(); });
      if (!rest.updated) return {.any_data = false};
      trace_.lap(session_.last_times());
      return rest;
    }
    batch_ = to_batch(copy_(element));
    trace_.lap(StepTrace::kInput);
    context_.begin_step(step_, session_.replica_id(), session_.accumulated());
    const bool empty = batch_.rows() == 0;
    std::vector<Tensor> statistics;
    if (empty) statistics = session_.variables().copy_on_read();
    spec_ = call_model(model_fn_, batch_, Mode::kTrain, context_, "at step", step_ + 1);
    trace_.lap(StepTrace::kForward);
    const int64_t rows = has_data ? batch_.rows() : 0;
    const distribute::StepInput input{
        .train_op = &spec_.train_op,
        .loss = spec_.loss,
        .reduction = spec_.loss_reduction,
        .weight = spec_.loss_weight.value_or(static_cast<double>(rows)),
        .has_data = has_data,
        .rows = rows,
        .stop = stop_wanted || stop_signal() != 0,
        .save = timer.wanted_by_clock(session_.is_chief())};
    const auto step = told_with_cause([&] { return session_.train_step(input); });
    if (empty) session_.variables().put_back_on_read(statistics);
    trace_.lap(session_.last_times());
    if (!measured) return step;
    for (const auto& [name, metric] : spec_.train_metrics) {
      const auto [known, added] = seen_.emplace(name, metric);
      if (!added) known->second.merge(metric);
    }
    return step;
  }

  // Before the next ones are made: they then get the same memory, still in the cache.
  void let_go() {
    spec_ = {};
    batch_ = {};
  }

  // train_metrics of this step over all replicas: sums, so one reduction of a few numbers.
  void measure() {
    metrics_.clear();
    if (seen_.empty()) return;
    std::vector<double> sums;
    for (const auto& [name, metric] : seen_)
      sums.insert(sums.end(), metric.state().begin(), metric.state().end());
    const Tensor all =
        session_.reduce(distribute::ReduceOp::kSum, torch::tensor(sums, at::kDouble));
    const double* next = all.data_ptr<double>();
    for (const auto& [name, metric] : seen_) {
      const size_t size = metric.state().size();
      metrics_[name] = Metric::make(metric.kind(), {next, next + size}).result();
      next += size;
    }
    seen_.clear();  // and with it the batches
  }

  // A loss that is no number is told with where it comes from.
  // A number that is not finite is told with its step and what is to blame, as far as the batch
  // that is at hand can say.
  template <typename Fn>
  distribute::StepResult told_with_cause(Fn fn) {
    try {
      return fn();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNonFinite) throw;
      if (!spec_.loss.defined()) {
        throw Error(ErrorKind::kNonFinite, fmt::format("{} at step {}", error.message(), step_ + 1),
                    "lower the learning rate or clip gradients; the last checkpoint is from before "
                    "this step");
      }
      const NonFiniteCause cause =
          explain_non_finite(batch_.features, batch_.labels, session_.variables(), spec_.loss);
      throw Error(ErrorKind::kNonFinite,
                  fmt::format("{} at step {}: {}", error.message(), step_ + 1, cause.text),
                  cause.hint + "; the last checkpoint is from before this step");
    }
  }

  // A hook's wish ends the run normally; a signal ends it with Cancelled, or, in the tasks that got
  // none, with the wish to be restarted together with the one that did.
  void end_on_request(Feed& feed, SaveTimer& timer) {
    const int signal = stop_signal();
    const std::vector<std::string> signals = session_.gather_text("stop", std::to_string(signal));
    size_t stopped = 0;
    while (stopped < signals.size() && signals[stopped] == "0") ++stopped;
    if (stopped == signals.size()) return;  // a hook's wish, here or elsewhere
    if (timer.enabled() && timer.saved_step() != step_) save(feed, timer, /*notify=*/false);
    const std::string saved = timer.enabled()
                                  ? fmt::format("after saving step {}", step_)
                                  : fmt::format("at step {}, without checkpoints", step_);
    session_.finish();
    if (signal != 0) {
      throw Error(ErrorKind::kCancelled, fmt::format("stopped by {} {}", name_of(signal), saved),
                  "run the same command again to continue");
    }
    throw Error(
        ErrorKind::kUnavailable,
        fmt::format("task {} of the group was asked to stop; all stopped {}", stopped, saved),
        "start all tasks again to continue");
  }

  void save(Feed& feed, SaveTimer& timer, bool notify) {
    trace_.start();
    const TimePoint begun = clock_.now();
    session_.report(Phase::kSaving, step_);
    Checkpoint checkpoint{.global_step = step_};
    checkpoint.inputs = json{{"train", feed.save()}}.dump();
    std::string prefix;
    checkpoint.tensors = session_.checkpoint_state();
    if (session_.is_chief()) {
      if (auto bad = find_non_finite(session_.variables(), checkpoint.tensors)) {
        throw Error(
            ErrorKind::kNonFinite,
            fmt::format("after step {} the {}; nothing was saved", step_, *bad),
            "lower the learning rate or clip gradients, and continue from the last checkpoint");
      }
      checkpoint.epoch = feed.position().epoch;
      if (lock_ != nullptr) lock_->check();
      prefix = checkpoints_.save(checkpoint);
      for (const auto& hook : hooks_) hook->after_save(step_, prefix);
    }
    // However long it takes, the others wait here, and not in a collective.
    session_.barrier("saved");
    timer.saved(step_);
    trace_.lap(StepTrace::kSaving);
    if (notify && options_.after_save) {
      options_.after_save(step_, prefix, session_);
      // An evaluation takes all threads for itself.
      if (num_threads() != threads_) set_threads(threads_);
    }
    session_.report(Phase::kTraining, step_);
    trace_.lap(StepTrace::kEvaluating);
    const double seconds = to_seconds(clock_.now() - begun);
    for (const auto& hook : hooks_) hook->after_pause(seconds);
  }

  const ModelFn& model_fn_;
  const TrainerOptions& options_;
  Session& session_;
  CheckpointManager& checkpoints_;
  Clock& clock_;
  ModelContext context_;
  const DeviceCopier copy_;
  std::vector<std::shared_ptr<Hook>> hooks_;
  StepTrace trace_;
  const int threads_ = num_threads();                // this replica's
  std::optional<CheckpointManager::Loaded> loaded_;  // on the chief, until it is restored
  const DirectoryLock* lock_ = nullptr;
  bool restored_ = false;
  int64_t step_ = 0;
  int64_t last_step_ = -1;
  std::map<std::string, Metric> seen_;     // train_metrics of the step under way, if measured
  std::map<std::string, double> metrics_;  // of the last step that was measured
  Batch batch_;                            // of the step under way
  EstimatorSpec spec_;                     // likewise
};

// Told to stop while it evaluates or waits for who does, a task has nothing to save; and when all
// are told, the end of the others is no failure.
Error as_stop(const Error& error) {
  const int signal = stop_signal();
  const bool evaluating = error.kind() == ErrorKind::kCancelled && error.hint().empty();
  if (signal == 0 || !(evaluating || error.kind() == ErrorKind::kPeerLost)) return error;
  return Error(ErrorKind::kCancelled,
               fmt::format("stopped by {}: {}", name_of(signal), error.message()),
               "run the same command again to continue from the last checkpoint");
}

// `failing` is called before the other replicas learn that this one cannot go on.
TrainResult train_replica(const ModelFn& model_fn, const InputFn& input_fn,
                          const TrainerOptions& options, Session& session,
                          CheckpointManager& checkpoints, const std::function<void()>& failing) {
  const DeviceScope here(session.device());
  Run run(model_fn, options, session, checkpoints);
  const bool saves = options.save_checkpoints_steps || options.save_checkpoints_secs;
  const auto fail = [&](const Error& error) {
    failing();
    session.fail(error);
  };
  try {
    // In the group already, so that the others learn why it ends.
    std::optional<DirectoryLock> lock;
    if (saves && session.is_chief()) {
      checkpoints.ensure_writable();
      // A file system of another kind locks in its own way, or not.
      if (options.fs == nullptr) {
        lock.emplace(options.model_dir, std::chrono::seconds(10),
                     [] { return stop_signal() != 0; });
        run.hold(*lock);
      }
    }
    return run(input_fn);
  } catch (const Error& error) {
    fail(error);
    const Error end = as_stop(error);
    if (end.kind() != ErrorKind::kPeerLost) throw end;
    throw end.with_detail(fmt::format("this task is at step {}", run.step()));
  } catch (const c10::Error& error) {
    const Error converted = internal_error(error.what_without_backtrace());
    fail(converted);
    throw converted;
  } catch (...) {
    fail(current_error());
    throw;
  }
}

}  // namespace

TrainResult train(const ModelFn& model_fn, const InputFn& input_fn, const TrainerOptions& options) {
  if (!options.strategy || options.params == nullptr) {
    throw invalid_argument("TrainerOptions has no strategy or no params",
                           "set both; an Estimator does");
  }
  CheckpointManager checkpoints(
      options.model_dir, {.fs = options.fs,
                          .clock = options.clock,
                          .keep_checkpoint_max = options.keep_checkpoint_max,
                          .keep_checkpoint_every_n_hours = options.keep_checkpoint_every_n_hours});
  const std::vector<std::unique_ptr<Session>> sessions =
      options.strategy->start_replicas(options.start);
  if (sessions.size() == 1) {
    return train_replica(model_fn, input_fn, options, *sessions[0], checkpoints, [] {});
  }
  const InputFn shared = called_once(input_fn);
  TrainResult result;
  distribute::ReplicaThreads threads(sessions.size());
  threads.run([&](size_t replica, const std::function<void()>& failing) {
    const TrainResult mine =
        train_replica(model_fn, shared, options, *sessions[replica], checkpoints, failing);
    if (replica == 0) result = mine;
  });
  return result;
}

}  // namespace muster::inline v0_1
