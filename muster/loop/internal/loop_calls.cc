// The calls of run(): each replica's work on its part, and the results for the loop.
#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribute/agree.h"
#include "muster/loop/internal/kept_batch.h"
#include "muster/loop/internal/loop.h"
#include "muster/loop/recorded_step.h"
#include "muster/optim/recording.h"
#include "muster/optim/train_op.h"
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

// One call of run() and the replicas' results.
struct Loop::Call {
  const RunOptions& options;
  const std::function<void(size_t)>& body;
  const std::function<int64_t(size_t)>& rows;
  const std::function<const Batch*(size_t)>& batch;
  StepResult result{};                    // of the first replica here
  std::atomic<int> training{0}, idle{0};  // replicas whose function called minimize(), and whose
                                          // did not
  std::atomic<bool> own_backward{false};  // the function called backward() itself

  // A replica that trains would wait for the others. The replica that comes later sees the
  // difference.
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
  if (options.training) {
    called_ = Called::kToTrain;
    // The steps that follow are Muster's. On devices LibTorch makes their gradients on threads that
    // all replicas share: with this watch, one replica's step would count as another's backward().
    watch_.reset();
  }
  if (called_ == Called::kNever) called_ = Called::kToEvaluate;
  Call call{options, body, rows, batch};
  each("strategy->run()", [&](Replica&, size_t local) { make(*replicas_[local], local, call); });
  if (call.training > 0) return note(call.result);
  if (!options.training || told_of_no_step_) return;
  // A function that computes without variables has nothing to train, unless it does so by itself.
  if (!call.own_backward && first().variables().variables().empty()) return;
  told_of_no_step_ = true;
  if (!first().is_chief()) return;
  std::string text = "run() made no step: its function called no Optimizer::minimize()";
  if (call.own_backward) {
    text +=
        ", and backward() itself: what that trains is in no checkpoint, and on several replicas "
        "each would train a model of its own; " +
        instead_of_own_training();
  }
  log::warning(text + "; {.training = false} says that this is meant");
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

// The batch of a replica, as a copy that no other one here has: changes to a shared batch would
// affect all.
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
  // The row uses of a function that did not train.
  for (const auto& variable : replica.variables().variables()) variable->take_row_uses();
  member.calls.begin_step(call.options.training, step_, replica.replica_id(),
                          replica.accumulated());
  member.context.begin_step(step_, replica.accumulated());
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
    // Replicas that train move together before they are used.
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
  // Whatever the program does between two calls, it is no step that takes too long.
  struct Between {
    Engine& engine;
    ~Between() { engine.replica().group().report(Phase::kEvaluating, engine.step()); }
  } between{member.engine};
  const bool builds = call.options.training && !member.engine.built();
  replica.group().report(builds ? Phase::kBuilding : Phase::kTraining, step_);
  if (builds) {
    before_build(member, call.batch(local));
    const KeptBatch kept(batch_of(call, local));
    if (!build(member, call, kept, call_function)) return;
    kept.put_back();
  }
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
  const KeptBatch kept(may_come_again ? batch_of(call, local) : nullptr);
  optim::TrainOp train_op = call_function();
  if (restored_ && !member.engine.built()) {
    // For a function that evaluates a restored state: if it made variables, it is called again with
    // their values from the checkpoint.
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
  const StepResult result = train_recorded(
      member.engine, member.calls, std::move(train_op),
      {.reduction = call.options.loss_reduction, .examples = examples, .stop = cancelled_()});
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
