#include "muster/train/internal/model_training.h"

#include <utility>

#include "muster/distribute/exchange.h"
#include "muster/layers/step_context.h"
#include "muster/plan/activity.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/internal/models_graph.h"
#include "muster/train/model_call.h"
#include "muster/train/model_steps.h"

namespace muster::inline v0_1::internal {

using distribute::Phase;
using distribute::StepInput;
using distribute::StepResult;

ModelTraining::ModelTraining(const ModelFn& model_fn, const TrainerOptions& options, Engine& engine,
                             Pace& pace, StepTrace& trace)
    : model_fn_(model_fn),
      options_(options),
      engine_(engine),
      replica_(engine.replica()),
      pace_(pace),
      trace_(trace),
      context_(Mode::kTrain, replica_.variables(), replica_.seed(), *options.params),
      own_training_(replica_, "the model function"),
      summaries_(context_.summary(), options.summary_every_steps, replica_.is_chief()),
      copy_(replica_.device()),
      metrics_due_(options.metrics_every_steps) {
  StepContext::of(context_.calls())
      .set_replicas(replica_.num_replicas_in_sync(), [this](const Tensor& value) {
        return distribute::all_reduce(replica_.exchange(), distribute::ReduceOp::kSum, value);
      });
}

EstimatorSpec ModelTraining::build(const Element& element) {
  const Batch batch = to_batch(copy_(element));
  internal::begin_step(context_, 0, replica_.replica_id());
  const auto call = [&] {
    return call_model_to_build(model_fn_, batch, Mode::kTrain, context_, &replica_.place());
  };
  internal::build_phase(context_, size_t{0});
  EstimatorSpec spec = call();
  plan_.add(spec.train_op);
  for (size_t phase = 1; phase < internal::phases_of(context_); ++phase) {
    internal::begin_step(context_, 0, replica_.replica_id());
    internal::build_phase(context_, phase);
    const EstimatorSpec other = call();
    plan_.add(other.train_op);
  }
  internal::build_phase(context_, std::nullopt);
  engine_.build(plan_.completed(spec.train_op));
  if (replica_.is_chief() && options_.summary_every_steps > 0) graph_ = graph_of_models(context_);
  spec.train_op = {};
  return spec;
}

void ModelTraining::begin_step() {
  measured_ |= pace_.is_near(metrics_due_, options_.metrics_every_steps, engine_.step());
}

StepResult ModelTraining::make(distribute::ReplicaInput& input, NonFiniteSteps& non_finite,
                               const std::function<StepInput()>& wishes) {
  metrics_.clear();
  non_finite.begin_step();
  StepResult made = make_batch(input, wishes);
  while (!made.updated) {
    replica_.group().report(Phase::kTraining, engine_.step());
    made = make_batch(input, wishes);
  }
  if (made.any_data) replica_.group().report(Phase::kTraining, engine_.step());
  return made;
}

StepResult ModelTraining::make_batch(distribute::ReplicaInput& input,
                                     const std::function<StepInput()>& wishes) {
  trace_.start();
  plan::ActivityRecord& activity = plan::this_activity();
  activity.enter(plan::Activity::kInput, trace_.last());
  Element element;
  const bool has_data = input.batches().read(&element);
  if (!has_data && replica_.num_replicas_in_sync() == 1) {
    const StepResult rest = engine_.apply_accumulated();
    if (!rest.updated) return {.any_data = false};
    trace_.lap(replica_.last_times());
    return rest;
  }
  const Batch batch = to_batch(copy_(element));
  trace_.lap(StepTrace::kInput);
  activity.enter(plan::Activity::kCompute, trace_.last());
  const int64_t step = engine_.step();
  internal::begin_step(context_, step, replica_.replica_id(), replica_.accumulated());
  const int64_t rows = has_data ? batch.rows() : 0;
  summaries_.begin_batch(step + 1, replica_.accumulated(), rows);
  const ZeroRowGuard guard(replica_.variables(), batch.rows());
  const bool alone = replica_.place().replicas() == 1 && replica_.place().in_sync;
  auto watch = alone ? nullptr : own_training_.begin();
  EstimatorSpec spec =
      call_model(model_fn_, batch, Mode::kTrain, context_,
                 {.where = "at step", .number = step + 1, .replica = &replica_.place()});
  if (watch) own_training_.check(*watch, &batch, !spec.train_op.entries.empty());
  watch.reset();
  trace_.lap(StepTrace::kForward);
  if (internal::phases_of(context_) > 1) spec.train_op = plan_.completed(std::move(spec.train_op));
  StepInput brought = wishes();
  brought.train_op = &spec.train_op;
  brought.loss = spec.loss;
  brought.reduction = spec.loss_reduction;
  brought.weight = spec.loss_weight.value_or(static_cast<double>(rows));
  brought.has_data = has_data;
  brought.rows = rows;
  const StepResult made = engine_.train(brought, &batch);
  trace_.lap(replica_.last_times());
  activity.enter(plan::Activity::kOther, trace_.last());
  if (measured_) metrics_.add(spec.train_metrics);
  return made;
}

std::optional<std::map<std::string, double>> ModelTraining::metrics() {
  if (!std::exchange(measured_, false)) return std::nullopt;
  metrics_.merge(replica_.exchange());
  for (const auto& [name, rate] : replica_.learning_rates()) metrics_.add_result(name, rate);
  return metrics_.results();
}

const std::vector<formats::SummaryValue>* ModelTraining::summaries() {
  const auto* values = summaries_.merge(replica_.exchange());
  if (values == nullptr) return nullptr;
  const std::map<std::string, double> measures = pace_.measures();
  if (measures.empty()) return values;
  summaries_of_run_ = *values;
  for (const auto& [name, value] : measures)
    summaries_of_run_.push_back({name, static_cast<float>(value)});
  return &summaries_of_run_;
}

}  // namespace muster::inline v0_1::internal
