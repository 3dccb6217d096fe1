// Adds metrics to what the model function of an Estimator measures.
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

// Measures a batch of an evaluation, on every replica. `predictions` are those that the model
// function gives in Mode::kEval: EstimatorSpec::predictions, which it may fill in every mode.
using MetricFn = std::function<std::map<std::string, Metric>(
    const Features& features, const Labels& labels, const Prediction& predictions)>;

// Returns an Estimator with the same model function, model_dir, config and params, whose
// evaluations show the metrics of `metric_fn` as well; one that has the name of a metric of the
// model function takes its place. The two share checkpoints, so the one may train and the other
// evaluate; `estimator` may be dropped. What metric_fn needs besides, it captures. Throws
// InvalidArgument for an empty metric_fn; an evaluation throws it for metrics called "loss" or
// "global_step".
MUSTER_EXPORT Estimator add_metrics(const Estimator& estimator, MetricFn metric_fn);

}  // namespace muster::inline v0_1
