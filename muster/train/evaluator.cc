#include "muster/train/evaluator.h"

#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/train/model_call.h"

namespace muster::inline v0_1 {

ModelRunner::ModelRunner(ModelFn model_fn, Mode mode, uint64_t seed, const nlohmann::json& params)
    : model_fn_(std::move(model_fn)),
      mode_(mode),
      variables_(seed),
      context_(mode, variables_, seed, params) {}

void ModelRunner::load(const Checkpoint* checkpoint, const std::string& name) {
  batches_ = 0;
  if (checkpoint == nullptr) {
    if (restored_) {
      throw invalid_argument(
          "this model holds values of a checkpoint already; it cannot be made fresh again",
          "use a new Estimator");
    }
    values_.clear();
    pending_ = false;
    global_step_ = 0;
    return;
  }
  values_ = checkpoint->tensors;
  global_step_ = checkpoint->global_step;
  source_ = name;
  pending_ = true;
  if (built_) restore();
}

void ModelRunner::restore() {
  std::map<std::string, TensorSpec> needed;
  Checkpoint relevant;
  for (const auto& variable : variables_.variables()) {
    needed[variable->name()] = {variable->spec().shape, variable->spec().dtype};
    const auto found = values_.find(variable->name());
    if (found != values_.end()) relevant.tensors.insert(*found);
  }
  compare(needed, relevant, source_).throw_if_incompatible();
  torch::NoGradGuard no_grad;
  for (const auto& variable : variables_.variables())
    variable->value().copy_(relevant.tensors.at(variable->name()));
  values_.clear();
  pending_ = false;
  restored_ = true;
}

EstimatorSpec ModelRunner::run(const Batch& batch) {
  torch::NoGradGuard no_grad;
  // The batch stands where training has the replica: each has its own random numbers.
  context_.begin_step(global_step_, batches_++);
  if (!built_) {
    // The first call only creates the variables, so that they can be given their values.
    (void)call_model(model_fn_, batch, mode_, context_, "while the model was built");
    variables_.seal();
    built_ = true;
    // What is drawn for the first batch does not depend on whether it was also built with.
    context_.begin_step(global_step_, batches_ - 1);
  }
  if (pending_) restore();
  return call_model(model_fn_, batch, mode_, context_, "on batch", batches_);
}

EvalResult evaluate(ModelRunner& runner, const Dataset& dataset, const EvaluateLoop& loop) {
  const auto iterator = dataset.iterator({.seed = loop.seed});
  Element element;
  std::map<std::string, Metric> merged;
  double loss = 0;
  int64_t batches = 0;
  while ((!loop.steps || batches < *loop.steps) && iterator->next(&element)) {
    if (loop.interrupted && loop.interrupted()) {
      throw Error(ErrorKind::kCancelled, fmt::format("evaluation was stopped after {} batch{}",
                                                     batches, batches == 1 ? "" : "es"));
    }
    const EstimatorSpec spec = runner.run(to_batch(element));
    loss += spec.loss.item<double>();
    for (const auto& [name, metric] : spec.eval_metrics) {
      const auto [known, fresh] = merged.emplace(name, metric);
      if (!fresh) known->second.merge(metric);
    }
    ++batches;
    if (loop.after_batch) loop.after_batch(batches);
  }
  if (batches == 0) {
    throw invalid_argument(
        "the evaluation input gave no data: " + dataset.describe(),
        "check the data directory and the transformations of the input function");
  }
  EvalResult result{{"loss", loss / static_cast<double>(batches)},
                    {"global_step", static_cast<double>(runner.global_step())}};
  for (const auto& [name, metric] : merged) result[name] = metric.result();
  return result;
}

}  // namespace muster::inline v0_1
