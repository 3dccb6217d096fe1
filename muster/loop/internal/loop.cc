#include "muster/loop/internal/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/distribute/agree.h"
#include "muster/distribute/elastic_run.h"
#include "muster/distribute/start_failure.h"
#include "muster/files/file_systems.h"
#include "muster/loop/internal/served_loop.h"
#include "muster/loop/named_call.h"
#include "muster/loop/recorded_step.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/train/late_error.h"
#include "muster/train/merge_metrics.h"
#include "muster/train/stop_reason.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1::distribute {
namespace {

constexpr const char* kEnd = "the end of its scope, or of its Model";

// 0: no summaries.
int64_t summary_steps(const ScopeOptions& options) {
  if (options.save_summary_steps < 1) {
    throw invalid_argument(
        fmt::format("ScopeOptions.save_summary_steps is {}; it must be at least 1",
                    options.save_summary_steps),
        "leave summary_dir empty to write no summaries");
  }
  return options.summary_dir.empty() ? 0 : options.save_summary_steps;
}

// What all tasks must have alike; the strategy has compared its own options by then.
Settings settings_of(const ScopeOptions& options) {
  return {{"seed", std::to_string(options.seed)},
          {"accumulate_steps", std::to_string(options.accumulate_steps)},
          {"save_summary_steps", std::to_string(summary_steps(options))}};
}

TaskWatch::Options shown(const ReplicaPlace& place) {
  return {.place = place, .watchdog = watchdog_seconds()};
}

// While one lives, this thread makes a call of Muster for a replica; then its program goes on.
class InCall {
 public:
  explicit InCall(plan::ActivityRecord& record) : record_(record), on_(record) {}
  ~InCall() { record_.enter(plan::Activity::kProgram); }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  plan::ActivityRecord& record_;
  const plan::OnActivity on_;
};

// A process that left its loop too early meets the others' collectives here: an error that names
// both, where a barrier would wait.
void meet_at_end(Replica& replica) {
  (void)replica.exchange().reduce(ReduceOp::kSum, torch::zeros({}, at::kLong));
}

}  // namespace

Loop::Member::Member(std::unique_ptr<Replica> started, int64_t accumulate_steps,
                     int64_t summary_steps, const std::string& run)
    : replica(std::move(started)),
      engine(*replica, accumulate_steps),
      calls(replica->variables(), replica->seed()),
      context(*replica),
      own_training(*replica, "the function of run()"),
      summaries(context.summary(), summary_steps, replica->is_chief()),
      activity(replica->place().name(), run) {
  engine.may_extend(replica->place().in_sync);
  calls.set_replicas(replica->num_replicas_in_sync(), [this](const Tensor& value) {
    return all_reduce(replica->exchange(), ReduceOp::kSum, value);
  });
}

std::shared_ptr<Loop> Loop::make(StrategyPtr strategy, const ScopeOptions& options,
                                 const ElasticSession& elastic) {
  if (!(options.merge_timeout.count() > 0)) {
    throw invalid_argument(fmt::format("ScopeOptions.merge_timeout is {} s; it must be more than 0",
                                       options.merge_timeout.count()));
  }
  set_threads(0);
  const Environment environment =
      options.environment ? *options.environment : Environment::process();
  const cluster::ResolvedCluster resolved =
      cluster::resolve_cluster(environment, {.worker_zero_may_be_chief = strategy->multi_worker(),
                                             .wants_servers = strategy->needs_servers()});
  cluster::announce(resolved);
  if (resolved.is_evaluator || !strategy->needs_servers()) check_worker(resolved, "train");
  StartOptions start{.cluster = resolved,
                     .seed = options.seed,
                     .call = kJoining,
                     .join_timeout = options.join_timeout.count(),
                     .cancelled = options.cancelled,
                     .model_dir = options.model_dir,
                     .elastic = elastic.run};
  const bool served = strategy->needs_servers() && !resolved.addresses.empty();
  const std::shared_ptr<Loop> made =
      served ? std::make_shared<ServedLoop>(std::move(strategy), options, std::move(start))
             : std::make_shared<Loop>(std::move(strategy), options, std::move(start));
  made->meeting_ = elastic.call;
  if (elastic.state) {
    made->memories_.resize(1);
    made->memories_.front() = {
        .epoch = 0, .state = std::make_shared<Checkpoint>(*elastic.state), .whole = false};
  }
  made->begin();
  return made;
}

Loop::Loop(StrategyPtr strategy, const ScopeOptions& options, StartOptions start)
    : strategy_(std::move(strategy)),
      options_(options),
      start_(std::move(start)),
      cancelled_([this] { return stops_by_itself(); }) {
  start_.cancelled = cancelled_;
}

void Loop::begin() {
  if (elastic()) return join_group();
  start_replicas();
  if (first().is_chief() && summary_steps(options_) > 0) {
    summary_hook_ = std::make_unique<SummaryHook>(
        std::make_shared<summary::EventWriter>(options_.summary_dir, file_systems(),
                                               system_clock()),
        options_.save_summary_steps, options_.save_summary_steps, system_clock());
  }
  threads_ = std::make_unique<ReplicaThreads>(replicas_.size());
  each(kJoining, [&](Replica& replica, size_t) { check_settings(replica); });
}

void Loop::check_settings(Replica& replica) const { check_same(replica, settings_of(options_)); }

void Loop::start_replicas() {
  for (auto& replica : strategy_->start_replicas(start_)) {
    // From now on the servers know about a task that fails.
    if (!replica->place().in_sync) note_joining();
    if (!shown_) shown_.emplace(shown(replica->place()));
    replicas_.push_back(std::make_unique<Member>(std::move(replica), options_.accumulate_steps,
                                                 summary_steps(options_), shown_->run()));
  }
  shown_->show_in(options_.model_dir);
  shown_->show_in(options_.summary_dir);
  merge_point_ = std::make_unique<MergePoint>(replicas_.size(), options_.merge_timeout.count(),
                                              first().replica_id());
  for (const auto& member : replicas_) member->context.set_merge_point(merge_point_.get());
}

const Replica& Loop::first() const {
  if (!replicas_.empty()) return *replicas_.front()->replica;
  check_ready();
  throw invalid_argument(
      "a parameter server has no replicas: it only serves those of the other tasks",
      "give the function that trains to Scope::serve() in front of the loop, in every task: if "
      "(scope.serve(step)) return;");
}

void Loop::check_ready() const {
  if (const Error* ended = std::get_if<Error>(&doing_))
    throw Error(ended->kind(), "the scope is over: " + ended->message(), ended->hint());
}

Loop* Loop::current() { return static_cast<Loop*>(entered().loop()); }

bool Loop::stops_by_itself() const {
  return options_.cancelled ? options_.cancelled() : request_.asked_or_signalled();
}

void Loop::enter() {
  if (scopes_ == 0 && entered_before_) {
    request_.begin();
    stop_ = false;
  }
  entered_before_ = true;
  if (scopes_++ == 0 && called_ != Called::kToTrain && !replicas_.empty() &&
      first().place().replicas() > 1)
    watch_ = std::make_unique<BackwardWatch>(/*leaves=*/false);
  entered().loops.push_back(this);
}

void Loop::leave(bool by_exception) noexcept {
  if (--scopes_ == 0) watch_.reset();
  // Scopes of one loop may end in any order.
  std::vector<EnteredLoop*>& loops = entered().loops;
  const auto last = std::find(loops.rbegin(), loops.rend(), this);
  if (last != loops.rend()) loops.erase(std::next(last).base());
  end_if_left(by_exception);
}

void Loop::release(bool by_exception) noexcept {
  --keepers_;
  end_if_left(by_exception);
}

void Loop::end_if_left(bool by_exception) noexcept {
  if (scopes_ > 0 || keepers_ > 0) return;
  if (replicas_.empty()) return;
  const bool chief = replicas_.front()->replica->is_chief();
  try {
    if (std::holds_alternative<Error>(doing_)) {
      // The others know, or are gone.
    } else if (by_exception) {
      // Servers write their parts until they hear of it.
      (void)await_save();
      const Error error(ErrorKind::kInternal, "an exception left the scope of its strategy");
      for (const auto& member : replicas_) member->replica->group().fail(error);
    } else {
      if (const int64_t waiting = first().accumulated(); waiting > 0) {
        log::warning(
            fmt::format("the scope of {} ended after {} of {} batches of an update, which are "
                        "lost; to use them for a smaller update, call scope.apply_accumulated()",
                        strategy_->name(), waiting, first().accumulate_steps()));
      }
      for (const std::string& name : first_engine().unclaimed()) {
        log::warning(fmt::format("no call of run() used {} of {}; it was saved again, unchanged",
                                 name, first_engine().restored_from()));
      }
      end_training(/*by_program=*/false);
      (void)settle_save();
      each(kEnd, [&](Replica& replica, size_t local) {
        meet_at_end(replica);
        leave_run(replica);
        replicas_[local]->engine.finish();
      });
    }
  } catch (const std::exception& error) {
    log::warning(fmt::format("at the end of the scope of {}: {}", strategy_->name(), error.what()));
    // Nothing is lost if another worker was lost when all had made their last call.
    const bool goes_on = goes_on_after(current_error());
    if (goes_on) (void)await_save();
    // The chief's exit code is that of the run, of which something may be lost.
    if (chief && !goes_on) {
      for (const auto& member : replicas_) member->replica->group().fail(current_error());
      note_late_error(current_error());
    }
  }
  if (!std::holds_alternative<Error>(doing_))
    doing_ = invalid_argument("the program left it", "enter a new one");
  const Error left(ErrorKind::kInternal, "an exception left the scope of its strategy");
  shown_->end(by_exception ? &left : nullptr);
  // Data sets that were distributed in this scope may live on.
  threads_.reset();
  replicas_.clear();
  writers_.clear();
  summary_hook_.reset();
}

void Loop::each(const char* own_call, const std::function<void(Replica&, size_t)>& fn) {
  // Whichever call brings the replicas together: it may be another one on each worker.
  const std::string call = own_call == kJoining ? own_call : NamedCall::current(own_call);
  if (ReplicaContext::inside()) {
    throw invalid_argument("a distributed data set was read inside of a replica function",
                           "read it between the calls of run(), and give run() the batch");
  }
  check_ready();
  (void)first();
  if (std::holds_alternative<AtWork>(doing_)) {
    throw invalid_argument(
        "the strategy was called inside of merge(), while its replicas wait for that",
        "let merge() return, and call the strategy after run()");
  }
  doing_ = AtWork();
  try {
    threads_->run([&](size_t local, const std::function<void()>& failing) {
      Replica& replica = *replicas_[local]->replica;
      try {
        guarded(
            replica,
            [&] {
              Exchange& exchange = replica.exchange();
              const struct Back {
                Exchange& exchange;
                std::string call;
                ~Back() { (void)exchange.set_call(std::move(call)); }
              } back{exchange, exchange.set_call(call)};
              const InCall shown(replicas_[local]->activity);
              fn(replica, local);
            },
            failing, [&] { return fmt::format("after step {}", step_); });
      } catch (...) {
        // The others know why by now; who waits for this one in merge() ends after that.
        merge_point_->fail(local);
        throw;
      }
    });
  } catch (...) {
    const Error error = current_error();
    doing_ = error;
    if (shown_ && !goes_on_after(error)) shown_->end(&error);
    throw;
  }
  doing_ = Ready();
}

void Loop::check_own_training() const {
  if (!watch_ || watch_->accumulated() == 0 || reduced_) return;
  throw invalid_argument(
      fmt::format("a loop over a distributed data set calls backward() instead of run(): each of "
                  "the {} replicas would train a different model",
                  first().num_replicas_in_sync()),
      "put the step into a function and give it to run(); " + instead_of_own_training());
}

void Loop::note(const StepResult& result) {
  if (!result.updated) return;
  // What is wrong from now on is not due to newcomers.
  if (std::exchange(tries_group_, false)) start_.elastic->keep_newcomers();
  stop_ = stop_ || result.stop;
  last_step_ = result;
  step_ = replicas_.front()->engine.step();
}

void Loop::show_last_step(int64_t step) {
  shown_last_step_ = step;
  for (const auto& member : replicas_) member->activity.set_last_step(step);
}

int64_t Loop::shown_last_step(int64_t batches) const {
  if (shown_last_step_ >= 0 || batches < 0) return shown_last_step_;
  const int64_t k = first().accumulate_steps();
  return step_ + (first().accumulated() + batches + k - 1) / k;
}

bool Loop::should_stop() const {
  // Several replicas learn of it in a step, so that all of them learn of it in the same one.
  return stop_ || (first().num_replicas_in_sync() == 1 && (cancelled_() || has_newcomers()));
}

std::string Loop::stopped_at() const {
  return saved_step_ == step_ ? fmt::format("after saving step {}", step_)
                              : fmt::format("at step {}, which was not saved", step_);
}

void Loop::stop() {
  before_stop();
  std::optional<Error> told;
  each("Scope::stop()", [&](Replica& replica, size_t local) {
    meet_at_end(replica);
    const auto reason = StopReason::agree(replica.group(), replica.place().name(), cancelled_());
    const Error mine = reason
                           ? reason->error(stopped_at(), goes_on_later())
                           : Error(ErrorKind::kCancelled, "stopped by its program " + stopped_at());
    replicas_[local]->engine.finish();
    if (local == 0) told = mine;
  });
  doing_ = *told;
  shown_->end(&*told);
  throw *told;
}

void Loop::apply_accumulated() {
  StepResult made;
  each("Scope::apply_accumulated()", [&](Replica&, size_t local) {
    plan::this_activity().enter(plan::Activity::kCompute);
    const StepResult result = replicas_[local]->engine.apply_accumulated();
    if (result.updated) plan::this_activity().end_step(replicas_[local]->engine.step());
    summarize(*replicas_[local], result);
    if (local == 0) made = result;
  });
  note(made);
}

void Loop::check_values(size_t size, const char* what) const {
  if (size == replicas_.size()) return;
  throw invalid_argument(fmt::format("{} was given values of {} replicas; this process has {}",
                                     what, size, replicas_.size()),
                         "give it what run() returned");
}

Tensor Loop::reduce(ReduceOp op, const PerReplica<Tensor>& value, std::optional<int64_t> axis) {
  reduced_ = true;
  check_values(value.size(), "reduce()");
  Tensor result;
  each("strategy->reduce()", [&](Replica& replica, size_t local) {
    const torch::NoGradGuard no_grad;
    Tensor reduced;
    if (!axis) {
      reduced = replica.exchange().reduce(op, value[local]);
    } else {
      reduced = replica.exchange().reduce(ReduceOp::kSum, value[local].sum(*axis));
      const Tensor count = torch::full({}, value[local].size(*axis), at::kDouble);
      if (op == ReduceOp::kMean) {
        if (!value[local].is_floating_point())
          (void)replica.exchange().reduce(op, value[local]);  // refuses
        const Tensor all = replica.exchange().reduce(ReduceOp::kSum, count);
        reduced = (reduced.to(at::kDouble) / all).to(reduced.scalar_type());
      }
    }
    if (local == 0) result = reduced;
  });
  return result;
}

Metric Loop::reduce(const PerReplica<Metric>& value) {
  check_values(value.size(), "reduce()");
  for (const Metric& metric : value) {
    if (metric.kind() == value[0].kind()) continue;
    throw invalid_argument(fmt::format("reduce() was given a {} of one replica and a {} of another",
                                       value[0].kind(), metric.kind()),
                           "return the same metric on all replicas");
  }
  std::optional<Metric> result;
  each("strategy->reduce()", [&](Replica& replica, size_t local) {
    const Metric merged = merge_over_replicas(replica.exchange(), {value[local]}).front();
    if (local == 0) result = merged;
  });
  return *result;
}

Tensor Loop::gather(const PerReplica<Tensor>& value, int64_t axis) {
  reduced_ = true;
  check_values(value.size(), "gather()");
  Tensor result;
  check_meets(first(), "gather()");
  each("strategy->gather()", [&](Replica& replica, size_t local) {
    const Tensor& mine = value[local];
    if (mine.dim() == 0 || axis < -mine.dim() || axis >= mine.dim()) {
      throw invalid_argument(fmt::format("gather() of {} along axis {}", describe(mine), axis),
                             "the value needs that axis; unsqueeze(0) gives a scalar one");
    }
    const int64_t along = axis < 0 ? axis + mine.dim() : axis;
    const std::vector<Tensor> parts = replica.exchange().gather(mine, along);
    if (local == 0) result = torch::cat(parts, along);
  });
  return result;
}

}  // namespace muster::inline v0_1::distribute
