// The calls of run(): what each replica does with its part, and what a loop learns of them.
#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/distribute/agree.h"
#include "muster/loop/internal/kept_batch.h"
#include "muster/loop/internal/loop.h"
#include "muster/loop/recorded_step.h"
#include "muster/optim/recording.h"
#include "muster/optim/train_op.h"
#include "muster/plan/activity.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/summary_calls.h"
#include "muster/train/user_call.h"

namespace muster::inline v0_1::distribute {
namespace {

Settings settings_of(const RunOptions& options) {
  const bool mean = options.loss_reduction == ReduceOp::kMean;
  return {{"loss_reduction", mean ? "mean" : "sum"}};
}

}  // namespace

// One call of run() and what the replicas bring to it.
struct Loop::Call {
  const RunOptions& options;
  const std::function<void(size_t)>& body;
  const std::function<int64_t(size_t)>& rows;
  const std::function<const Batch*(size_t)>& batch;
  StepResult result{};                    // of the first replica here
  std::atomic<int> training{0}, idle{0};  // replicas whose function called minimize(), and did not
  std::atomic<bool> own_backward{false};  // the function called backward() itself
  bool is_new = false;                    // the function has not trained before

  // A call that trains would wait for the others. The task that arrives later sees the difference.
  void compare(bool trains) {
    ++(trains ? training : idle);
    if (training == 0 || idle == 0) return;
    throw invalid_argument("minimize() was called on some replicas only",
                           "call it on all of them; a replica without examples has a loss of zero "
                           "rows, which counts for nothing");
  }
};

void Loop::run(const RunOptions& options, const std::function<void(size_t)>& body,
               const std::function<int64_t(size_t)>& rows,
               const std::function<const Batch*(size_t)>& batch) {
  before_run(options.training);
  trains_ = options.training;
  if (shown_) shown_->begin(options.training);
  if (options.training) {
    called_ = Called::kToTrain;
    // The steps that follow are Muster's. On devices LibTorch makes their gradients on threads that
    // all replicas share: with this watch, one replica's step would count as another's backward().
    watch_.reset();
  }
  if (called_ == Called::kNever) called_ = Called::kToEvaluate;
  Call call{options, body, rows, batch};
  const std::type_index function(body.target_type());
  call.is_new = built() && first().place().in_sync && first().accumulated() == 0 &&
                !known_functions_.contains(function);
  each("strategy->run()", [&](Replica&, size_t local) { make(*replicas_[local], local, call); });
  if (call.training > 0) {
    known_functions_.insert(function);
    return note(call.result);
  }
  if (!options.training || told_of_no_step_) return;
  // A function that computes without variables has nothing to train, unless it does so by itself.
  if (!call.own_backward && first().variables().variables().empty()) return;
  told_of_no_step_ = true;
  if (!first().is_chief()) return;
  std::string text = "run() made no step: its function called no Optimizer::minimize()";
  if (call.own_backward) {
    text +=
        ", and calls backward() itself: the trained values are in no checkpoint, and several "
        "replicas would train different models; " +
        instead_of_own_training();
  }
  log::warning(text + "; if this is intended, pass {.training = false}");
}

void Loop::build_by(const std::function<void(size_t)>& body, const Batch* batch) {
  const RunOptions options;
  const std::function<int64_t(size_t)> rows = [](size_t) { return int64_t{0}; };
  const std::function<const Batch*(size_t)> given = [&](size_t) { return batch; };
  Call call{options, body, rows, given};
  each("Scope::end_training()", [&](Replica& replica, size_t local) {
    Member& member = *replicas_[local];
    replica.group().report(Phase::kBuilding, step_);
    before_build(member, batch);
    if (!build(member, call, KeptBatch(nullptr), [&] { return invoke(member, local, call); })) {
      throw invalid_argument("the function that serve() was given called no Optimizer::minimize()",
                             "give it the one that run() trains with");
    }
    replica.group().report(Phase::kEvaluating, step_);
  });
}

// The batch of a replica, where no other one here has the same: what they changed in one they would
// change together.
optim::TrainOp Loop::invoke_new(Member& member, const KeptBatch& kept, int64_t rows,
                                const std::function<optim::TrainOp()>& invoke) {
  Replica& replica = *member.replica;
  const size_t before = replica.variables().variables().size();
  replica.variables().open();
  optim::TrainOp described = invoke();
  const auto& variables = replica.variables().variables();
  if (member.plan.covers(described)) {
    if (variables.size() > before) {
      throw invalid_argument(
          fmt::format("the variable {} was first asked for after the model was built, by a "
                      "function that names no new optimizer",
                      variables[before]->spec().describe()),
          "create every variable in the first call that names the optimizer that trains it");
    }
    replica.variables().seal_as_is();
    return described;
  }
  std::vector<std::string> made;
  for (size_t v = before; v < variables.size(); ++v) made.push_back(variables[v]->name());
  member.plan.add(described);
  // Workers that differ here would wait for each other in the update.
  check_same(replica, {{"the optimizers of run()", join(member.plan.names(), ", ")},
                       {"the variables that a function of run() made", join(made, ", ")}});
  member.engine.extend(member.plan.completed(std::exchange(described, {})));
  kept.put_back();
  const ZeroRowGuard guard(replica.variables(), rows);
  return invoke();
}

const Batch* Loop::batch_of(const Call& call, size_t local) const {
  const Batch* mine = call.batch(local);
  for (size_t other = 0; other < num_local_replicas(); ++other) {
    if (other != local && call.batch(other) == mine) return nullptr;
  }
  return mine;
}

optim::TrainOp Loop::invoke(Member& member, size_t local, Call& call) {
  Replica& replica = *member.replica;
  const torch::AutoGradMode gradients(call.options.training);
  const StepContext::Current layers(member.calls);
  const ReplicaContext::Enter context(member.context);
  optim::Recording recording;
  // Those of a function that did not train.
  for (const auto& variable : replica.variables().variables()) variable->take_row_uses();
  member.calls.begin_step(call.options.training, step_, replica.replica_id(),
                          replica.accumulated());
  member.context.begin_step(step_, replica.accumulated(), call.options.training);
  merge_point_->enter(local, step_);
  std::unique_ptr<BackwardWatch> watch;
  if (call.options.training) watch = member.own_training.begin();
  try {
    call.body(local);
  } catch (...) {
    rethrow_with_place(
        "the function of run()",
        fmt::format("{} {}{}", call.options.training ? "at step" : "after step",
                    call.options.training ? step_ + 1 : step_, on_replica(replica.place())),
        [&](const std::string& said) {
          return hint_of_mixed_devices(said, replica.device()).value_or("");
        });
  }
  merge_point_->leave(local);
  optim::TrainOp described = recording.train_op();
  if (watch) {
    if (watch->accumulated() > 0) call.own_backward = true;
    member.own_training.check(*watch, call.batch(local), !described.entries.empty());
  }
  return described;
}

bool Loop::build(Member& member, Call& call, const KeptBatch& kept,
                 const std::function<optim::TrainOp()>& invoke) {
  const optim::TrainOp described = invoke();
  call.compare(described.defined());
  member.replica->exchange().end_of_function();
  if (described.defined()) {
    check_same(*member.replica, settings_of(call.options));
    member.plan.add(described);
    // Those that train move together before they are used.
    member.engine.build(described);
    after_build(member);
    if (summary_hook_ != nullptr && member.replica->is_chief())
      summary_hook_->begin({.start_step = step_});
    return true;
  }
  if (restored_ && restore_variables(member)) {
    kept.put_back();
    (void)invoke();
  }
  return false;
}

void Loop::make(Member& member, size_t local, Call& call) {
  Replica& replica = *member.replica;
  const auto call_function = [&] { return invoke(member, local, call); };
  // Whatever the program does between two calls, it is not a step that takes too long.
  struct Between {
    Engine& engine;
    ~Between() { engine.replica().group().report(Phase::kEvaluating, engine.step()); }
  } between{member.engine};
  member.pending.look();
  const bool builds = call.options.training && !member.engine.built();
  plan::ActivityRecord& activity = plan::this_activity();
  // Each look at the clock costs some tens of nanoseconds: a report leaves computing as it is.
  if (call.options.training) activity.enter(plan::Activity::kCompute);
  replica.group().report(builds ? Phase::kBuilding : Phase::kTraining, step_);
  if (builds) {
    before_build(member, call.batch(local));
    const KeptBatch kept(batch_of(call, local));
    if (!build(member, call, kept, call_function)) return;
    kept.put_back();
  }
  if (builds) activity.enter(plan::Activity::kCompute);
  if (!call.options.training) activity.enter(plan::Activity::kEvaluating);
  before_call(member, call.options.training);
  const int64_t examples = call.rows(local);
  if (call.options.training && member.engine.built()) {
    member.summaries.begin_batch(step_ + 1, replica.accumulated(), examples);
  } else {
    muster::internal::SummaryCalls(member.context.summary()).begin({});
  }
  std::optional<ZeroRowGuard> guard(std::in_place, replica.variables(), examples);
  const bool may_come_again =
      restored_ && !member.engine.built() && replica.variables().variables().empty();
  const bool is_new = call.is_new && call.options.training;
  const KeptBatch kept(may_come_again || is_new ? batch_of(call, local) : nullptr);
  optim::TrainOp train_op =
      is_new ? invoke_new(member, kept, examples, call_function) : call_function();
  if (restored_ && !member.engine.built()) {
    // A function that evaluates what was restored: where it made variables, it is called again with
    // their values of the checkpoint.
    guard.reset();
    const bool again = restore_variables(member);
    guard.emplace(replica.variables(), examples);
    if (again) {
      kept.put_back();
      train_op = call_function();
    }
  }
  call.compare(train_op.defined());
  if (!train_op.defined()) return replica.exchange().end_of_function();
  if (!call.options.training) {
    throw invalid_argument("minimize() was called in a run() without training",
                           "leave RunOptions.training at true");
  }
  const bool in_sync = replica.place().in_sync;
  const StepResult result = train_recorded(
      member.engine, member.calls, in_sync ? member.plan.completed(std::move(train_op)) : train_op,
      {.reduction = call.options.loss_reduction,
       .examples = examples,
       .stop = cancelled_() || has_newcomers()});
  if (result.updated) activity.end_step(member.engine.step());
  summarize(member, result);
  if (local == 0) call.result = result;
}

void Loop::summarize(Member& member, const StepResult& made) const {
  if (!made.updated || !made.any_data) return;
  const auto* values = member.summaries.merge(member.replica->exchange());
  if (summary_hook_ == nullptr || !member.replica->is_chief()) return;
  summary_hook_->after_step({.global_step = member.engine.step(),
                             .loss = made.loss,
                             .rows = made.rows,
                             .summaries = values});
}

}  // namespace muster::inline v0_1::distribute
