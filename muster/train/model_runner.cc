#include "muster/train/model_runner.h"

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/model_call.h"

namespace muster::inline v0_1 {

ModelRunner::ModelRunner(ModelFn model_fn, Mode mode, uint64_t seed, const nlohmann::json& params,
                         Device device)
    : model_fn_(std::move(model_fn)),
      mode_(mode),
      variables_(seed, device),
      context_(mode, variables_, seed, params) {}

void ModelRunner::load(const Checkpoint* checkpoint, const std::string& name) {
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

void ModelRunner::build(const Batch& batch) {
  if (!built_) {
    torch::NoGradGuard no_grad;
    context_.begin_step(global_step_, 0);
    // This call only creates the variables, so that they can be given their values.
    (void)call_model(model_fn_, batch, mode_, context_, {.where = "while the model was built"});
    variables_.seal();
    built_ = true;
  }
  if (pending_) restore();
}

EstimatorSpec ModelRunner::run(const Batch& batch, int64_t index) {
  build(batch);
  torch::NoGradGuard no_grad;
  // The batch stands where training has the replica: each has its own random numbers.
  context_.begin_step(global_step_, index);
  return call_model(model_fn_, batch, mode_, context_, {.where = "on batch", .number = index + 1});
}

std::vector<const Variable*> ModelRunner::variables() const {
  std::vector<const Variable*> all;
  for (const auto& variable : variables_.variables()) all.push_back(variable.get());
  return all;
}

}  // namespace muster::inline v0_1
