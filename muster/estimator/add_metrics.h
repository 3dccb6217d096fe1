// Adds metrics to those of an Estimator's model function.
// Thread safety: as Estimator.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "muster/base/export.h"
#include "muster/estimator/estimator.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/features.h"
#include "muster/train/prediction.h"

namespace muster::inline v0_1 {

// Measures a batch of an evaluation, on every replica. `predictions` are the model function's
// EstimatorSpec::predictions in Mode::kEval; it may set them in every mode.
using MetricFn = std::function<std::map<std::string, Metric>(
    const Features& features, const Labels& labels, const Prediction& predictions)>;

// Returns an Estimator with the same model function, model_dir, config and params, whose
// evaluations also have the metrics of `metric_fn`; a metric with the name of one of the model
// function's replaces it. Both Estimators share checkpoints, so one may train and the other
// evaluate; `estimator` may be destroyed. metric_fn captures other data that it needs. Throws
// InvalidArgument for an empty metric_fn; an evaluation throws it for metrics called "loss" or
// "global_step".
MUSTER_EXPORT Estimator add_metrics(const Estimator& estimator, MetricFn metric_fn);

}  // namespace muster::inline v0_1
