#include "muster/estimator/add_metrics.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

Estimator add_metrics(const Estimator& estimator, MetricFn metric_fn) {
  if (!metric_fn) {
    throw invalid_argument("add_metrics got an empty metric_fn",
                           "pass a function of (features, labels, predictions) that returns "
                           "metrics by name");
  }
  RunConfig config = estimator.config();
  // A model_dir that was made up for it, or is in TF_CONFIG, is shared too.
  config.model_dir = estimator.model_dir();
  const auto measured = [model_fn = estimator.model_fn(), metric_fn = std::move(metric_fn)](
                            const Features& features, const Labels& labels, Mode mode,
                            ModelContext& context) {
    EstimatorSpec spec = model_fn(features, labels, mode, context);
    if (mode != Mode::kEval) return spec;
    for (auto& [name, metric] : metric_fn(features, labels, Prediction(spec.predictions)))
      spec.eval_metrics.insert_or_assign(name, std::move(metric));
    return spec;
  };
  return Estimator(measured, std::move(config), estimator.params());
}

}  // namespace muster::inline v0_1
