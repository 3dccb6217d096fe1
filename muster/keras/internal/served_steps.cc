#include "muster/keras/internal/served_steps.h"

#include <algorithm>
#include <utility>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::keras::internal {
namespace {

// Steps that are scheduled ahead for each worker, so that none waits for the chief.
constexpr int64_t kAhead = 8;

distribute::ScheduledStepsOptions steps_options(Model::Impl& model,
                                                const ServedStepsOptions& options) {
  distribute::ScheduledStepsOptions given{.seed = model.options.seed,
                                          .model_dir = options.backup_dir,
                                          .notes = options.notes,
                                          .beside = options.beside,
                                          .environment = model.options.environment,
                                          .loss_reduction = model.compiled->objective.reduction()};
  // Weights that were made, or loaded, before are the initial weights of fit().
  if (model.built && !model.bystander()) given.initial_state = model.state();
  return given;
}

}  // namespace

ServedSteps::ServedSteps(Model::Impl& model, const Dataset& data, ServedStepsOptions options)
    : model_(model),
      class_weight_(std::move(options.class_weight)),
      optimizer_(model.training_optimizer()),
      steps_(distribute::make_scheduled_steps(
          model.given_strategy(), [this](const Batch& batch) { return train(batch); }, data,
          steps_options(model, options))) {}

std::vector<Tensor> ServedSteps::train(const Batch& batch) {
  model_.note_rows(batch.features);
  Measured measured =
      model_.compiled->objective.measure(batch, model_.outputs_of(batch.features), class_weight_);
  optimizer_.minimize(measured.loss);
  std::vector<Tensor> told{torch::full({}, batch.rows(), at::kLong)};
  for (const Metric& metric : measured.metrics)
    told.push_back(torch::tensor(metric.state(), at::kDouble));
  metrics_ = std::move(measured.metrics);
  return told;
}

bool ServedSteps::serve() {
  if (steps_->serve()) return true;
  model_.elsewhere = {
      .step = steps_->step(), .changed = true, .state = [this] { return steps_->state(); }};
  return false;
}

int64_t ServedSteps::step() {
  model_.elsewhere->step = steps_->step();
  return model_.elsewhere->step;
}

BatchResult ServedSteps::next(int64_t left) {
  const int64_t ahead = std::min<int64_t>(left, kAhead * steps_->num_workers());
  for (; under_way_ < ahead; ++under_way_) steps_->schedule();
  const std::vector<Tensor> told = steps_->fetch();
  --under_way_;
  ++model_.elsewhere->step;
  model_.elsewhere->changed = true;
  BatchResult result{.loss = told.back().item<double>(), .rows = told.front().item<int64_t>()};
  std::vector<Metric> metrics;
  for (size_t m = 0; m < metrics_.size(); ++m) {
    const Tensor& state = told[m + 1];
    const double* const values = state.data_ptr<double>();
    metrics.push_back(metrics_[m].with_state({values, values + state.numel()}));
  }
  result.metrics.push_back(std::move(metrics));
  return result;
}

}  // namespace muster::inline v0_1::keras::internal
