// Makes an Estimator of a compiled Model. Thread safety: a free function.
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
  // What the metrics of compile() are called by the Estimator; where there are entries, for all of
  // them.
  std::map<std::string, std::string> metric_names_map = {};
};

// The Estimator computes what the Model does, with the same losses, metrics, optimizer and frozen
// layers, and names variables as it does: checkpoints of both fit the other. It begins with the
// weights the Model has now, where it has some: the chief writes them once, to
// model_dir/keras/keras_model.ckpt-0.safetensors; a model_dir with a checkpoint goes on with that.
// Features are the inputs by their names, or {"features": …, "sample_weights": …}. Predictions are
// the outputs by their names. RunConfig says where it trains; the Model's strategy is left out, and
// its `accumulate_steps` and seed are taken where the RunConfig has none. Throws InvalidArgument
// for a Model that was not compiled, and for a metric_names_map that leaves out a metric or names
// one that is not there.
MUSTER_EXPORT Estimator model_to_estimator(Model& model, RunConfig config = {},
                                           const ModelToEstimatorOptions& options = {});

}  // namespace muster::inline v0_1::keras
