// Makes an Estimator from a compiled Model. Thread safety: a free function.
//
//   keras::Model model(...);
//   model.compile({.optimizer = "adam", .loss = "mse"});
//   Estimator estimator = keras::model_to_estimator(model, {.model_dir = "model"});
//   train_and_evaluate(estimator, {.input_fn = train}, {.input_fn = test});
#pragma once

#include <map>
#include <string>

#include "muster/base/export.h"
#include "muster/estimator/estimator.h"
#include "muster/keras/model.h"

namespace muster::inline v0_1::keras {

// Options of model_to_estimator().
struct ModelToEstimatorOptions {
  // The Estimator's names of the metrics of compile(); empty: the same names, else an entry for
  // each metric.
  std::map<std::string, std::string> metric_names_map = {};
};

// The Estimator computes what the Model does, with the same losses, metrics, optimizer, frozen
// layers and variable names: each can read the other's checkpoints. It begins with the current
// weights of the Model, if it has any: the chief writes them once, to
// model_dir/keras/keras_model.ckpt-0.safetensors; a model_dir with a checkpoint continues from
// that. Features are the inputs by their names, or {"features": …, "sample_weights": …}.
// Predictions are the outputs by their names. RunConfig says where it trains; the Model's strategy
// is ignored, and its `accumulate_steps` and seed are used if the RunConfig sets none. Throws
// InvalidArgument for a Model that was not compiled, and for a metric_names_map with a missing or
// unknown metric.
MUSTER_EXPORT Estimator model_to_estimator(Model& model, RunConfig config = {},
                                           const ModelToEstimatorOptions& options = {});

}  // namespace muster::inline v0_1::keras
