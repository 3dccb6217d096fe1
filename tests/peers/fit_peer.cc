// Keras's compile(), fit(), evaluate() and predict(): tools/peers/cases/fit.py.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/keras/callbacks.h"
#include "muster/keras/model.h"
#include "muster/layers/sequential.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/fit_parts.h"
#include "tests/peers/layer_maker.h"
#include "tests/peers/options.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {

using Json = nlohmann::json;

std::vector<keras::MetricChoice> peer_metrics(const Json& names) {
  std::vector<keras::MetricChoice> metrics;
  // Keras takes the names of classes and of functions.
  static const std::map<std::string, std::string> classes = {
      {"AUC", "auc"},
      {"Precision", "precision"},
      {"Recall", "recall"},
      {"RootMeanSquaredError", "root_mean_squared_error"}};
  for (const std::string name : names) {
    const auto known = classes.find(name);
    metrics.emplace_back(known == classes.end() ? name : known->second);
  }
  return metrics;
}

namespace {

std::shared_ptr<keras::Callback> callback_of(const Json& given) {
  const std::string name = given.at("class");
  if (name == "EarlyStopping") {
    keras::EarlyStoppingOptions options;
    take(given, "monitor", options.monitor);
    take(given, "patience", options.patience);
    take(given, "min_delta", options.min_delta);
    take(given, "restore_best_weights", options.restore_best_weights);
    take(given, "baseline", options.baseline);
    take(given, "start_from_epoch", options.start_from_epoch);
    return std::make_shared<keras::EarlyStopping>(options);
  }
  if (name == "ReduceLROnPlateau") {
    keras::ReduceLROnPlateauOptions options;
    take(given, "monitor", options.monitor);
    take(given, "patience", options.patience);
    take(given, "factor", options.factor);
    take(given, "min_delta", options.min_delta);
    take(given, "cooldown", options.cooldown);
    take(given, "min_lr", options.min_lr);
    return std::make_shared<keras::ReduceLROnPlateau>(options);
  }
  const auto rates = given.at("rates").get<std::vector<double>>();
  return std::make_shared<keras::LearningRateScheduler>(
      [rates](int64_t epoch, double) { return rates[static_cast<size_t>(epoch)]; });
}

keras::FitOptions fit_options(const PeerCase& a_case) {
  const Json& program = a_case.program;
  keras::FitOptions options{.verbose = keras::Verbose::kSilent};
  options.shuffle = false;
  take(program, "epochs", options.epochs);
  take(program, "initial_epoch", options.initial_epoch);
  take(program, "batch_size", options.batch_size);
  take(program, "validation_split", options.validation_split);
  take(program, "validation_freq", options.validation_freq);
  take(program, "class_weight", options.class_weight);
  if (a_case.inputs.count("sample_weight") > 0)
    options.sample_weight = a_case.inputs.at("sample_weight").tensor();
  if (a_case.inputs.count("val_x") > 0) {
    options.validation_data = Dataset::from_tensor_slices(
        Element::tuple({a_case.inputs.at("val_x").tensor(), a_case.inputs.at("val_y").tensor()}));
    // Keras evaluates in batches of the same size; the result does not depend on it.
    options.validation_data = options.validation_data->batch(options.batch_size);
  }
  if (program.contains("callback")) options.callbacks = {callback_of(program.at("callback"))};
  return options;
}

PeerArrays run_fit(const PeerCase& a_case) {
  const Json& program = a_case.program;
  std::vector<Layer> layers;
  for (const Json& layer : program.at("layers")) layers.push_back(make_layer(layer));
  keras::Model model(Sequential(layers), {.environment = Environment()});
  model.compile({.optimizer = program.at("optimizer").get<std::string>(),
                 .loss = program.at("loss").get<std::string>(),
                 .metrics = peer_metrics(program.at("metrics")),
                 .weighted_metrics = peer_metrics(program.at("weighted_metrics"))});
  model.build(program.at("shape").get<Shape>());
  std::map<std::string, Tensor> weights;
  for (const auto& [name, value] : model.get_weights())
    weights[name] = a_case.inputs.at("weight_" + std::to_string(weights.size())).tensor();
  model.set_weights(weights);
  const Tensor x = a_case.inputs.at("x").tensor();
  const Tensor y = a_case.inputs.at("y").tensor();
  const int64_t batch_size = program.at("batch_size");
  const keras::History history = model.fit(x, y, fit_options(a_case));
  PeerArrays result;
  for (const auto& [name, values] : history.history) {
    std::vector<double> there;
    // Keras leaves out the epochs without a validation.
    for (const double value : values) {
      if (!std::isnan(value)) there.push_back(value);
    }
    result["history/" + name] = PeerArray::of(torch::tensor(there, kFloat64));
  }
  int place = 0;
  for (const auto& [name, value] : model.get_weights())
    result["weight_" + std::to_string(place++)] = PeerArray::of(value);
  for (const auto& [name, value] : model.evaluate(x, y, batch_size))
    result["evaluate/" + name] = PeerArray::of(value);
  result["predict"] = PeerArray::of(model.predict(x, batch_size));
  return result;
}

const PeerKind kFit("fit", run_fit);

}  // namespace
}  // namespace muster::inline v0_1
