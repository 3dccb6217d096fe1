#include "muster/keras/model.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/keras/internal/fit.h"
#include "muster/keras/internal/model_impl.h"
#include "muster/layers/mixed_precision.h"
#include "muster/layers/model_graph.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/named_call.h"
#include "muster/optim/adjustable_learning_rate.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::keras {
namespace {

// Rows of tensors as a data set, in batches over all replicas.
Dataset batches_of(const Element& rows, int64_t batch_size, const char* verb) {
  if (batch_size < 1) {
    throw invalid_argument(
        fmt::format("{}: batch_size is {}; it must be at least 1", verb, batch_size));
  }
  return Dataset::from_tensor_slices(rows).batch(batch_size);
}

Element joined(const Element& features, const Element& labels, const Tensor& weights) {
  std::vector<Element> parts{features, labels};
  if (weights.defined()) parts.emplace_back(weights);
  return Element::tuple(std::move(parts));
}

}  // namespace

Model::Model(Layer layer, ModelOptions options)
    : impl_(std::make_unique<Impl>(std::move(layer), Function(), std::move(options))) {}

Model::Model(Function function, ModelOptions options) {
  if (!function) {
    throw invalid_argument("Model: the function is empty",
                           "give it one of (const Features&, CallContext&)");
  }
  impl_ = std::make_unique<Impl>(std::nullopt, std::move(function), std::move(options));
}

Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

void Model::compile(const CompileOptions& options) {
  if (options.accumulate_steps < 1) {
    throw invalid_argument(fmt::format("compile: accumulate_steps is {}; it must be at least 1",
                                       options.accumulate_steps));
  }
  const auto factor = std::make_shared<std::atomic<double>>(1.0);
  optim::Optimizer base = options.optimizer.make();
  optim::Optimizer adjustable = optim::adjustable_learning_rate(base, factor);
  Impl::Compiled compiled{.options = options,
                          .objective = internal::Objective(options, impl_->output_names),
                          .base = std::move(base),
                          .optimizer = std::move(adjustable),
                          .rate_factor = factor};
  std::optional<Layer> layer = impl_->original;
  if (!options.mixed_precision.empty()) {
    if (!layer) {
      throw invalid_argument("not supported: compile: mixed_precision of a model of a function",
                             "call mixed_precision() on the layers that the function calls");
    }
    layer = mixed_precision(options.mixed_precision, *layer);
  }
  impl_->layer = std::move(layer);
  impl_->compiled = std::move(compiled);
  impl_->better.clear();
  impl_->change(/*drop_slots=*/true);
}

bool Model::compiled() const { return impl_->compiled.has_value(); }

History Model::fit(const Dataset& data, const FitOptions& options) {
  (void)impl_->compiled_for("fit");
  const FitOptions unset;
  const char* given = options.batch_size != unset.batch_size ? "batch_size"
                      : options.shuffle != unset.shuffle     ? "shuffle"
                      : options.sample_weight.defined()      ? "sample_weight"
                      : options.validation_split != 0        ? "validation_split"
                                                             : nullptr;
  if (given != nullptr) {
    throw invalid_argument(
        fmt::format("fit: {} is given with a data set; it is for tensors, fit(x, y, {{...}})",
                    given),
        "say it to the data set: shuffle(n), batch(n), take(n), and (features, labels, weights)");
  }
  return fit_batches(data, options);
}

History Model::fit_batches(const Dataset& data, const FitOptions& options) {
  const distribute::NamedCall call("Model::fit()");
  const int64_t number = impl_->fits++;
  impl_->join_workers(internal::Fit::call(number));
  return internal::Fit::make(*this, options, number)->run(data);
}

History Model::fit(const Element& features, const Element& labels, const FitOptions& options) {
  (void)impl_->compiled_for("fit");
  const Element all = joined(features, labels, options.sample_weight);
  const int64_t rows = all.rows();
  FitOptions fit = options;
  int64_t train_rows = rows;
  if (options.validation_split != 0) {
    if (!(options.validation_split > 0 && options.validation_split < 1)) {
      throw invalid_argument(fmt::format("fit: validation_split is {}; it must be from 0 to 1",
                                         options.validation_split));
    }
    if (options.validation_data) {
      throw invalid_argument("fit: both validation_split and validation_data are given",
                             "give one of them");
    }
    train_rows = static_cast<int64_t>(
        std::floor(static_cast<double>(rows) * (1 - options.validation_split)));
    if (train_rows == 0 || train_rows == rows) {
      throw invalid_argument(
          fmt::format(
              "fit: a validation_split of {} of {} examples leaves {} to train on and {} to "
              "validate with",
              options.validation_split, rows, train_rows, rows - train_rows),
          "give more examples, or another part of them");
    }
    fit.validation_data = batches_of(all.slice(train_rows, rows), options.batch_size, "fit");
  }
  if (options.batch_size < 1) (void)batches_of(all, options.batch_size, "fit");
  Dataset data = Dataset::from_tensor_slices(train_rows == rows ? all : all.slice(0, train_rows));
  if (options.shuffle) data = data.shuffle(train_rows);
  return fit_batches(data.batch(options.batch_size), fit);
}

Logs Model::evaluate(const Dataset& data, const EvaluateOptions& options) {
  const distribute::NamedCall call("Model::evaluate()");
  (void)impl_->compiled_for("evaluate");
  if (impl_->bystander()) return {};
  Impl::check_ends(data, options.steps, "evaluate", "steps");
  for (const auto& callback : options.callbacks) callback->set_model(this);
  Logs logs = impl_->evaluate(data, options);
  for (const auto& callback : options.callbacks) callback->set_model(nullptr);
  return logs;
}

Logs Model::evaluate(const Element& features, const Element& labels, int64_t batch_size) {
  return evaluate(batches_of(joined(features, labels, {}), batch_size, "evaluate"));
}

std::map<std::string, Tensor> Model::predict_outputs(const Dataset& data,
                                                     const PredictOptions& options) {
  const distribute::NamedCall call("Model::predict()");
  if (impl_->bystander()) return {};
  Impl::check_ends(data, options.steps, "predict", "steps");
  const distribute::Scope here = impl_->scope();
  for (const auto& callback : options.callbacks) {
    callback->set_model(this);
    callback->on_predict_begin();
  }
  // Every process reads all of it, in its order; its replicas take whole batches in turn.
  auto distributed =
      impl_->strategy().distribute_from_function([&](const InputContext&) { return data; });
  std::vector<std::vector<Tensor>> parts(impl_->output_names.size());
  int64_t batches = 0;
  const auto replicas = static_cast<int64_t>(here.num_local_replicas());
  for (auto batch = distributed.begin(); batch != distributed.end(); ++batch) {
    int64_t replica = 0;
    for (std::vector<Tensor>& outputs : impl_->predict(*batch)) {
      if (outputs.size() != parts.size()) {
        throw invalid_argument(
            fmt::format("predict: the model returned {} outputs; it should have {}", outputs.size(),
                        parts.size()),
            "name all of them in ModelOptions::output_names");
      }
      if (options.steps && batches + replica++ >= *options.steps) break;
      if (outputs.front().dim() > 0 && outputs.front().size(0) == 0 && !parts.front().empty())
        continue;
      for (size_t o = 0; o < outputs.size(); ++o) parts[o].push_back(outputs[o].to(at::kCPU));
    }
    batches += replicas;
    for (const auto& callback : options.callbacks) callback->on_predict_batch_end(batches - 1);
    if (options.steps && batches >= *options.steps) break;
  }
  impl_->built = true;
  if (parts.front().empty()) {
    throw invalid_argument("predict: the data set gave no examples: " + data.describe(),
                           "check the data directory and the transformations");
  }
  std::map<std::string, Tensor> predictions;
  for (size_t o = 0; o < parts.size(); ++o)
    predictions[impl_->output_names[o]] = torch::cat(parts[o]);
  for (const auto& callback : options.callbacks) {
    callback->on_predict_end();
    callback->set_model(nullptr);
  }
  return predictions;
}

Tensor Model::predict(const Dataset& data, const PredictOptions& options) {
  if (impl_->output_names.size() > 1) {
    throw invalid_argument(
        fmt::format("predict: the model has {} outputs", impl_->output_names.size()),
        "predict_outputs() gives them by name");
  }
  if (impl_->bystander()) return {};
  return predict_outputs(data, options).begin()->second;
}

Tensor Model::predict(const Element& features, int64_t batch_size) {
  return predict(batches_of(Element::tuple({features}), batch_size, "predict"));
}

Logs Model::train_on_batch(const Element& features, const Element& labels,
                           const Tensor& sample_weight, const std::vector<double>& class_weight) {
  const distribute::NamedCall call("Model::train_on_batch()");
  (void)impl_->compiled_for("train_on_batch");
  if (impl_->served()) {
    throw invalid_argument("not supported: train_on_batch() on parameter servers",
                           "fit() trains there; loops of one's own are distribute::"
                           "ClusterCoordinator's");
  }
  impl_->require_joined("train_on_batch()");
  impl_->prepare_to_train();
  const distribute::Scope here = impl_->scope();
  const BatchResult made =
      impl_->train(impl_->divided(to_batch(joined(features, labels, sample_weight))), class_weight);
  internal::Tally tally(impl_->compiled->objective.metric_names());
  tally.add(made.loss, made.rows, made.metrics);
  return tally.over_all(impl_->strategy());
}

Logs Model::test_on_batch(const Element& features, const Element& labels,
                          const Tensor& sample_weight) {
  const distribute::NamedCall call("Model::test_on_batch()");
  (void)impl_->compiled_for("test_on_batch");
  if (impl_->bystander()) return {};
  const distribute::Scope here = impl_->scope();
  const BatchResult tested =
      impl_->test(impl_->divided(to_batch(joined(features, labels, sample_weight))));
  internal::Tally tally(impl_->compiled->objective.metric_names());
  tally.add(tested.loss, tested.rows, tested.metrics);
  return tally.over_all(impl_->strategy());
}

Tensor Model::predict_on_batch(const Element& features) {
  return predict(features, std::max<int64_t>(1, features.rows()));
}

void Model::build(const Shape& shape) {
  const distribute::NamedCall call("Model::build()");
  if (impl_->built) return;
  if (!shape.empty()) {
    Shape rows{1};
    rows.insert(rows.end(), shape.begin(), shape.end());
    impl_->build(Element(torch::zeros(rows)));
  }
  impl_->require_built("build");
}

bool Model::built() const { return impl_->built; }

std::string Model::summary() const {
  if (!impl_->original) {
    throw invalid_argument("not supported: summary() of a model of a function",
                           "ask the layers it calls: layer.summary({Input({784})})");
  }
  if (Functional::of(*impl_->original)) return impl_->original->summary();
  const std::vector<SymbolicTensor> inputs = impl_->known_inputs();
  if (inputs.empty()) {
    throw invalid_argument(
        "summary: the inputs of the model are not known",
        "call it after fit() or build({784}), or give ModelOptions::inputs: {.inputs = "
        "{Input({784})}}");
  }
  return impl_->original->summary(inputs);
}

std::optional<formats::GraphDef> Model::graph() const {
  if (!impl_->original) return std::nullopt;
  const std::vector<SymbolicTensor> inputs = impl_->known_inputs();
  if (inputs.empty()) return std::nullopt;
  const bool has_own = Functional::of(*impl_->original).has_value();
  return model_graph(*impl_->original, has_own ? std::vector<SymbolicTensor>() : inputs, name());
}

int64_t Model::count_params() {
  const distribute::NamedCall call("Model::count_params()");
  impl_->require_built("count_params");
  int64_t count = 0;
  for (const VariableSpec& spec : impl_->scope().variable_specs()) {
    int64_t elements = 1;
    for (const int64_t size : spec.shape) elements *= size;
    count += elements;
  }
  return count;
}

void Model::freeze(const std::vector<std::string>& layers) {
  auto frozen = std::make_shared<const internal::FrozenLayers>(layers);
  if (impl_->built) impl_->require_frozen_layers(*frozen);
  impl_->frozen = layers.empty() ? nullptr : std::move(frozen);
  impl_->change(/*drop_slots=*/false);
}

std::vector<std::string> Model::trainable_weights() {
  const distribute::NamedCall call("Model::trainable_weights()");
  impl_->require_built("trainable_weights");
  std::vector<std::string> names;
  for (const VariableSpec& spec : impl_->scope().variable_specs()) {
    const bool frozen = impl_->frozen && (*impl_->frozen)(internal::layer_of(spec.name));
    if (spec.trainable && !frozen) names.push_back(spec.name);
  }
  return names;
}

double Model::learning_rate() const {
  const Impl::Compiled& compiled = impl_->compiled_for("learning_rate");
  return compiled.base.rule().schedule().at(step()) * compiled.rate_factor->load();
}

void Model::set_learning_rate(double rate) {
  impl_->refuse_while_served("set_learning_rate()");
  const Impl::Compiled& compiled = impl_->compiled_for("set_learning_rate");
  const optim::LearningRate schedule = compiled.base.rule().schedule();
  if (!schedule.is_constant()) {
    throw invalid_argument(
        "set_learning_rate: the optimizer has the schedule " + schedule.describe(),
        "compile it with a number, or let the schedule decide");
  }
  if (!std::isfinite(rate) || rate < 0) {
    throw invalid_argument(
        fmt::format("set_learning_rate: the rate is {}; it must be 0 or more", rate));
  }
  if (schedule.at(0) == 0) {
    throw invalid_argument("set_learning_rate: the optimizer was made with the learning rate 0",
                           "compile it with a rate that is not 0");
  }
  compiled.rate_factor->store(rate / schedule.at(0));
}

int64_t Model::step() const { return impl_->step(); }
void Model::stop_training() { impl_->stop = true; }
bool Model::is_chief() { return impl_->is_chief(); }
const std::string& Model::name() const { return impl_->options.name; }
const std::vector<std::string>& Model::input_names() const { return impl_->input_names; }
const std::vector<std::string>& Model::output_names() const { return impl_->output_names; }
const CompileOptions& Model::compile_options() const {
  return impl_->compiled_for("compile_options").options;
}
const distribute::StrategyPtr& Model::strategy() const { return impl_->given_strategy(); }

}  // namespace muster::inline v0_1::keras
