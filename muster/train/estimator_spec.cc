#include "muster/train/estimator_spec.h"

#include <cmath>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

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

EstimatorSpec EstimatorSpec::predict(std::map<std::string, Tensor> predictions) {
  EstimatorSpec spec;
  spec.predictions = std::move(predictions);
  return spec;
}

EstimatorSpec EstimatorSpec::predict(Tensor output) {
  return predict(std::map<std::string, Tensor>{{"output", std::move(output)}});
}

void EstimatorSpec::validate(Mode mode) {
  if (mode == Mode::kPredict) {
    if (predictions.empty()) {
      throw invalid_argument("Missing predictions: the model function gave none in mode predict",
                             "return EstimatorSpec::predict({{\"name\", tensor}})");
    }
    for (const auto& [name, tensor] : predictions) {
      if (!tensor.defined() || tensor.dim() == 0) {
        throw invalid_argument(
            fmt::format("predictions[\"{}\"] is {}: it needs the batch as its first axis", name,
                        describe(tensor)));
      }
    }
    return;
  }
  const std::string in_mode = fmt::format(" in mode {}", describe(mode));
  if (!loss.defined()) {
    throw invalid_argument(
        "Missing loss: the model function gave none" + in_mode,
        "return EstimatorSpec::train(loss, train_op) or EstimatorSpec::eval(loss, metrics)");
  }
  if (loss.numel() != 1) {
    throw invalid_argument(
        fmt::format("Loss must be scalar; the model function gave {}{}", describe(loss), in_mode),
        "reduce it over the batch: mean() or sum()");
  }
  if (loss.dim() != 0) loss = loss.reshape({});
  if (!at::isFloatingType(loss.scalar_type())) {
    throw invalid_argument(
        fmt::format("the loss must be of a floating type; the model function gave {}{}",
                    describe(loss), in_mode));
  }
  if (loss_weight && !(*loss_weight >= 0 && std::isfinite(*loss_weight))) {
    throw invalid_argument(
        fmt::format("loss_weight is {}{}; it must be finite and 0 or more", *loss_weight, in_mode));
  }
  if (mode == Mode::kTrain && train_op.entries.empty()) {
    throw invalid_argument(
        "Missing train_op: the model function gave none" + in_mode,
        "return EstimatorSpec::train(loss, context.optimizer(optim::sgd()).minimize(loss))");
  }
  if (mode == Mode::kTrain && !train_metrics.empty()) {
    // Tags of what training itself reports.
    for (const char* taken : {"loss", "global_step", "global_step/sec", "examples/sec"}) {
      if (train_metrics.count(taken) != 0) {
        throw invalid_argument(
            fmt::format("training reports \"{}\" itself; a metric may not have that name", taken),
            "call it by another name");
      }
    }
  }
  if (mode == Mode::kEval) {
    for (const char* taken : {"loss", "global_step"}) {
      if (eval_metrics.count(taken) != 0) {
        throw invalid_argument(
            fmt::format("the metric \"{}\" is always there; the model function may not give one of "
                        "that name",
                        taken),
            "call it by another name");
      }
    }
  }
}

}  // namespace muster::inline v0_1
