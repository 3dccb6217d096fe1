#include "muster/estimator/estimator.h"

#include <fmt/format.h>

#include <set>

#include "muster/base/error.h"
#include "muster/base/nearest_hint.h"
#include "muster/estimator/internal/estimator_impl.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/optimizer_tensors.h"

namespace muster::inline v0_1 {

using nlohmann::json;

Estimator::Estimator(ModelFn model_fn, RunConfig config)
    : Estimator(std::move(model_fn), std::move(config), json::object()) {}

Estimator::Estimator(ModelFn model_fn, RunConfig config, const json& params)
    : impl_(std::make_unique<Impl>()) {
  if (!model_fn) throw invalid_argument("an Estimator needs a model function");
  if (!params.is_object()) {
    throw invalid_argument("params must be a JSON object, not " + params.dump());
  }
  config.validate();
  impl_->model_fn = std::move(model_fn);
  impl_->config = std::move(config);
  impl_->params = params;
}

Estimator::~Estimator() = default;
Estimator::Estimator(Estimator&&) noexcept = default;

const RunConfig& Estimator::config() const { return impl_->config; }
const json& Estimator::params() const { return impl_->params; }
const ModelFn& Estimator::model_fn() const { return impl_->model_fn; }
const std::string& Estimator::model_dir() const { return impl_->directory(); }
const cluster::ResolvedCluster& Estimator::cluster() const { return impl_->resolve(); }
bool Estimator::is_chief() const { return cluster().is_chief; }
std::string Estimator::eval_dir(const std::string& name) const { return impl_->eval_dir(name); }

std::optional<std::string> Estimator::latest_checkpoint() const {
  return impl_->checkpoints().latest();
}

std::vector<std::string> Estimator::get_variable_names() const {
  const auto loaded = impl_->trained();
  std::set<std::string> names{kGlobalStep};
  for (const auto& [name, tensor] : loaded.checkpoint.tensors) {
    if (!optimizer_of_counter(name, tensor)) names.insert(name);
  }
  return {names.begin(), names.end()};
}

Tensor Estimator::get_variable_value(const std::string& name) const {
  const auto loaded = impl_->trained();
  const auto found = loaded.checkpoint.tensors.find(name);
  if (found == loaded.checkpoint.tensors.end()) {
    if (name == kGlobalStep) return torch::scalar_tensor(loaded.checkpoint.global_step, at::kLong);
    throw not_found(
        fmt::format("{} holds no variable \"{}\"", loaded.prefix, name),
        nearest_hint(name, get_variable_names(), "get_variable_names() lists those there are"));
  }
  return found->second;
}

std::vector<formats::TorchExported> Estimator::export_torch(
    const std::string& path, const std::optional<std::string>& checkpoint_path) const {
  const std::optional<std::string> prefix =
      checkpoint_path ? checkpoint_path : impl_->checkpoints().latest();
  if (!prefix) throw impl_->not_trained();
  return formats::export_torch(impl_->fs(), checkpoint_file(*prefix), path).value();
}

TrainResult Estimator::train(const InputFn& input_fn, const TrainOptions& options) {
  return impl_->train(input_fn, options, {});
}

EvalResult Estimator::evaluate(const InputFn& input_fn, const EvaluateOptions& options) {
  return impl_->evaluate(input_fn, options).result;
}

}  // namespace muster::inline v0_1
