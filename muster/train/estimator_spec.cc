#include "muster/train/estimator_spec.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/train/hook.h"

namespace muster::inline v0_1 {
namespace {

void check_predictions(const std::map<std::string, Tensor>& predictions) {
  if (predictions.empty()) {
    throw invalid_argument("Missing predictions: the model function gave none in mode predict",
                           "return EstimatorSpec::predict({{\"name\", tensor}})");
  }
  for (const auto& [name, tensor] : predictions) {
    if (tensor.defined() && tensor.dim() > 0) continue;
    throw invalid_argument(fmt::format(
        "predictions[\"{}\"] is {}: it needs the batch as its first axis", name, describe(tensor)));
  }
}

// For messages. Each step is checked, so nothing is written before it is needed.
std::string in_mode(Mode mode) { return fmt::format(" in mode {}", describe(mode)); }

void check_loss(const Tensor& loss, Mode mode) {
  if (!loss.defined()) {
    throw invalid_argument(
        "Missing loss: the model function gave none" + in_mode(mode),
        "return EstimatorSpec::train(loss, train_op) or EstimatorSpec::eval(loss, metrics)");
  }
  if (loss.numel() != 1) {
    throw invalid_argument(fmt::format("Loss must be scalar; the model function gave {}{}",
                                       describe(loss), in_mode(mode)),
                           "reduce it over the batch: mean() or sum()");
  }
  if (!at::isFloatingType(loss.scalar_type())) {
    throw invalid_argument(
        fmt::format("the loss must be of a floating type; the model function gave {}{}",
                    describe(loss.reshape({})), in_mode(mode)));
  }
}

// Throws when another metric has the name that a part of the metric `name` is shown by.
void check_parts(const std::map<std::string, Metric>& metrics, const std::string& name,
                 const MetricKind& kind) {
  if (kind.part_names.empty()) return;
  const std::string begin = name + "/";
  for (auto other = metrics.lower_bound(begin);
       other != metrics.end() && other->first.starts_with(begin); ++other) {
    const std::string part = other->first.substr(begin.size());
    if (std::ranges::find(kind.part_names, part) == kind.part_names.end()) continue;
    throw invalid_argument(
        fmt::format("the metric \"{}\" has the name of a part of the metric \"{}\", which is {}",
                    other->first, name, kind.name),
        "call it by another name");
  }
}

// Throws when a metric has no kind; and `message`, with the name in its place, when one has a name
// that is taken.
void check_metrics(const std::map<std::string, Metric>& metrics,
                   std::initializer_list<const char*> taken,
                   fmt::format_string<const char*&> message) {
  if (metrics.empty()) return;
  for (const auto& [name, metric] : metrics) {
    if (metric.defined()) continue;
    throw invalid_argument(
        fmt::format("the metric \"{}\" was default constructed: it measures nothing", name),
        "assign one to it: metrics::mean(...), metrics::accuracy(...)");
  }
  for (const char* name : taken) {
    if (!metrics.contains(name)) continue;
    throw invalid_argument(fmt::format(message, name), "call it by another name");
  }
  for (const auto& [name, metric] : metrics) check_parts(metrics, name, *metric.definition());
}

}  // namespace

EstimatorSpec EstimatorSpec::train(Tensor loss, optim::TrainOp train_op,
                                   std::map<std::string, Metric> metrics) {
  EstimatorSpec spec;
  spec.loss = std::move(loss);
  spec.train_op = std::move(train_op);
  spec.train_metrics = std::move(metrics);
  return spec;
}

EstimatorSpec EstimatorSpec::eval(Tensor loss, std::map<std::string, Metric> metrics) {
  EstimatorSpec spec;
  spec.loss = std::move(loss);
  spec.eval_metrics = std::move(metrics);
  return spec;
}

EstimatorSpec EstimatorSpec::predict(std::map<std::string, Tensor> predictions,
                                     std::map<std::string, ExportOutput> export_outputs) {
  EstimatorSpec spec;
  spec.predictions = std::move(predictions);
  spec.export_outputs = std::move(export_outputs);
  return spec;
}

EstimatorSpec EstimatorSpec::predict(Tensor output) {
  return predict(std::map<std::string, Tensor>{{"output", std::move(output)}});
}

std::map<std::string, ExportOutput> EstimatorSpec::signatures() const {
  if (export_outputs.empty()) return {{kServingDefault, PredictOutput(predictions)}};
  std::map<std::string, ExportOutput> signatures = export_outputs;
  std::vector<std::string> names;
  for (const auto& [name, output] : signatures) {
    names.push_back(name);
    if (output.outputs.empty())
      throw invalid_argument(
          fmt::format("export_outputs[\"{}\"] has no output", name),
          "make it with PredictOutput, ClassificationOutput or RegressionOutput");
    for (const auto& [key, tensor] : output.outputs) {
      if (tensor.defined()) continue;
      throw invalid_argument(
          fmt::format("export_outputs[\"{}\"]: the tensor \"{}\" is missing", name, key),
          "give each output a tensor that the model function computed");
    }
  }
  if (signatures.contains(kServingDefault)) return signatures;
  if (signatures.size() > 1) {
    throw invalid_argument(
        fmt::format("export_outputs has {} and no \"{}\"", join_quoted(names), kServingDefault),
        fmt::format("name the default one \"{}\"", kServingDefault));
  }
  signatures[kServingDefault] = signatures.begin()->second;
  return signatures;
}

void EstimatorSpec::validate(Mode mode) {
  if (mode == Mode::kTrain) {
    check_hooks(training_hooks, "EstimatorSpec.training_hooks");
    check_hooks(training_chief_hooks, "EstimatorSpec.training_chief_hooks");
  } else if (mode == Mode::kEval) {
    check_hooks(evaluation_hooks, "EstimatorSpec.evaluation_hooks");
  } else {
    check_hooks(prediction_hooks, "EstimatorSpec.prediction_hooks");
  }
  if (mode == Mode::kPredict) {
    check_predictions(predictions);
    return;
  }
  check_loss(loss, mode);
  if (loss.dim() != 0) loss = loss.reshape({});
  if (loss_weight && !(*loss_weight >= 0 && std::isfinite(*loss_weight))) {
    throw invalid_argument(fmt::format("loss_weight is {}{}; it must be finite and 0 or more",
                                       *loss_weight, in_mode(mode)));
  }
  if (mode == Mode::kTrain) {
    if (!train_op.defined()) {
      throw invalid_argument(
          "Missing train_op: the model function gave none" + in_mode(mode),
          "return EstimatorSpec::train(loss, context.optimizer(optim::sgd()).minimize(loss))");
    }
    check_metrics(train_metrics, {"loss", "global_step", "global_step/sec", "examples/sec"},
                  "training reports \"{}\" itself; a metric may not have that name");
  } else {
    check_metrics(
        eval_metrics, {"loss", "global_step"},
        "the metric \"{}\" is always there; the model function may not give one of that name");
  }
}

}  // namespace muster::inline v0_1
