#include "muster/train/model_context.h"

#include "muster/base/error.h"

namespace muster::inline v0_1 {

Tensor Model::operator()(const Tensor& input) const {
  CallContext::Scope scope(*context_, *name_);
  return (*layer_)(input, *context_);
}

LayerOutputs Model::operator()(const LayerInputs& inputs) const {
  CallContext::Scope scope(*context_, *name_);
  return (*layer_)(inputs, *context_);
}

ModelContext::ModelContext(Mode mode, VariableStore& variables, uint64_t seed,
                           const nlohmann::json& params)
    : mode_(mode), variables_(variables), seed_(seed), params_(params), calls_(variables, seed) {}

Model ModelContext::model(const std::string& name, const std::function<Layer()>& make) {
  auto found = models_.find(name);
  if (found == models_.end()) {
    if (name.empty()) throw invalid_argument("a model needs a name", "context.model(\"net\", ...)");
    found = models_.emplace(name, make()).first;
  }
  return Model(&found->second, &calls_, &found->first);
}

const Tensor& ModelContext::variable(const VariableSpec& spec) {
  return variables_.get_or_create(spec).value();
}

optim::Optimizer ModelContext::optimizer(const optim::Optimizer& optimizer) {
  const std::string kind = optimizer.rule().name();
  const auto known = optimizers_.find(optimizer.name());
  if (known == optimizers_.end()) {
    optimizers_.emplace(optimizer.name(), kind);
  } else if (known->second != kind) {
    throw invalid_argument(fmt::format("the optimizer \"{}\" is {}, but was {} before",
                                       optimizer.name(), kind, known->second),
                           "an optimizer keeps its kind for the whole run; give the other one a "
                           "name of its own with named()");
  }
  return optimizer;
}

RandomKey ModelContext::random_key(const std::string& name) const {
  const RandomKey key =
      derive_key(seed_, {id_of("model function"), static_cast<uint64_t>(global_step_),
                         static_cast<uint64_t>(replica_), id_of(name)});
  // Beyond what next_random_key() derives.
  return batch_ == 0 ? key : key.derive(static_cast<uint64_t>(batch_) << 32);
}

RandomKey ModelContext::next_random_key(const std::string& name) {
  return random_key(name).derive(draws_[name]++);
}

void ModelContext::begin_step(int64_t global_step, int64_t replica, int64_t batch) {
  global_step_ = global_step;
  replica_ = replica;
  batch_ = batch;
  draws_.clear();
  calls_.begin_step(mode_ == Mode::kTrain, global_step, replica, batch);
}

}  // namespace muster::inline v0_1
