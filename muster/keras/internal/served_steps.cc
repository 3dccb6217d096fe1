#include "muster/keras/internal/served_steps.h"

#include <algorithm>
#include <utility>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::keras::internal {
namespace {

// Steps that are scheduled ahead for each worker, so that none waits for the chief.
constexpr int64_t kAhead = 8;

distribute::CoordinatorOptions coordinator_options(Model::Impl& model,
                                                   const ServedStepsOptions& options) {
  distribute::CoordinatorOptions given{.seed = model.options.seed,
                                       .model_dir = options.backup_dir,
                                       .keep_checkpoint_max = 1,
                                       .notes = options.notes,
                                       .environment = model.options.environment};
  // Weights that were made, or loaded, before are those that fit() begins with.
  if (model.built && !model.bystander()) given.initial_state = model.state();
  return given;
}

}  // namespace

ServedSteps::ServedSteps(Model::Impl& model, const Dataset& data, ServedStepsOptions options)
    : model_(model),
      class_weight_(std::move(options.class_weight)),
      optimizer_(model.training_optimizer()),
      coordinator_(model.given_strategy(), coordinator_options(model, options)),
      train_(coordinator_.define("train_step",
                                 [this](const distribute::RemoteCall& call) { return train(call); },
                                 {.training = true,
                                  .data = coordinator_.distribute("data", data),
                                  .loss_reduction = model.compiled->objective.reduction(),
                                  .returns_step_loss = true})) {}

std::vector<Tensor> ServedSteps::train(const distribute::RemoteCall& call) {
  const Batch& batch = call.batch();
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
  if (coordinator_.serve()) return true;
  model_.elsewhere = {.step = coordinator_.step(), .changed = true, .state = [this] {
                        return coordinator_.state();
                      }};
  return false;
}

int64_t ServedSteps::step() {
  model_.elsewhere->step = coordinator_.step();
  return model_.elsewhere->step;
}

BatchResult ServedSteps::next(int64_t left) {
  const int64_t ahead = std::min<int64_t>(left, kAhead * coordinator_.num_workers());
  while (static_cast<int64_t>(under_way_.size()) < ahead)
    under_way_.push_back(coordinator_.schedule(train_));
  const std::vector<Tensor> told = coordinator_.fetch(under_way_.front());
  under_way_.pop_front();
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
