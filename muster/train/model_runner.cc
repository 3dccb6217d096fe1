#include "muster/train/model_runner.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/checkpoint/warm_start.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/model_call.h"
#include "muster/train/model_steps.h"

namespace muster::inline v0_1 {

ModelRunner::ModelRunner(ModelFn model_fn, Mode mode, uint64_t seed, const nlohmann::json& params,
                         Device device)
    : model_fn_(std::move(model_fn)),
      mode_(mode),
      seed_(seed),
      variables_(seed, device),
      context_(mode, variables_, seed, params) {}

void ModelRunner::load(const Checkpoint* checkpoint, const std::string& name, std::string version) {
  start_warm_ = nullptr;
  version_.clear();
  if (checkpoint == nullptr) {
    check_fresh();
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
  version_ = std::move(version);
}

bool ModelRunner::holds(const std::string& version) const {
  return built_ && !pending_ && !version.empty() && version == version_ && writes() == writes_;
}

int64_t ModelRunner::writes() const {
  int64_t sum = 0;
  for (const auto& variable : variables_.variables()) sum += variable->value()._version();
  return sum;
}

void ModelRunner::check_fresh() const {
  if (!restored_) return;
  throw invalid_argument(
      "this model holds values of a checkpoint already; it cannot be made fresh again",
      "use a new Estimator");
}

void ModelRunner::warm_start(const WarmStartSettings& settings, FileSystem& fs) {
  load(nullptr, "");
  if (warm_) return;
  start_warm_ = [this, settings, &fs] {
    muster::warm_start(fs, settings, variables_, seed_);
    warm_ = true;
  };
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
  writes_ = writes();
}

void ModelRunner::build(const Batch& batch) {
  if (!built_) {
    internal::begin_step(context_, global_step_, 0);
    // So that they can be given their values.
    EstimatorSpec spec = call_model_to_build(model_fn_, batch, mode_, context_);
    hooks_ = std::move(mode_ == Mode::kEval ? spec.evaluation_hooks : spec.prediction_hooks);
    variables_.seal();
    built_ = true;
  }
  if (pending_) restore();
  if (start_warm_) std::exchange(start_warm_, nullptr)();
}

EstimatorSpec ModelRunner::run(const Batch& batch, int64_t index) {
  build(batch);
  torch::NoGradGuard no_grad;
  // The index of the batch takes the place of the replica in training: each has its own random
  // numbers.
  internal::begin_step(context_, global_step_, index);
  return call_model(model_fn_, batch, mode_, context_, {.where = "on batch", .number = index + 1});
}

std::vector<const Variable*> ModelRunner::variables() const {
  std::vector<const Variable*> all;
  for (const auto& variable : variables_.variables()) all.push_back(variable.get());
  return all;
}

}  // namespace muster::inline v0_1
