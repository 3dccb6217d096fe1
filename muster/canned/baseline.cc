#include "muster/canned/baseline.h"

#include "muster/canned/internal/head_of.h"
#include "muster/layers/initializers.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1 {
namespace {

constexpr double kLearningRate = 0.3;

// Returns zeros [batch, 1]. If there is a tensor they are made of it, so that an exported model
// returns the requested number of rows.
Tensor column_of(const Features& features, Device device) {
  const int64_t rows = features.rows();
  for (const Value& value : features.element().values()) {
    if (!value.is_tensor()) continue;
    Tensor column = value.tensor();
    while (column.dim() > 1) column = column.size(1) > 0 ? column.select(1, 0) : column.sum(1);
    return at::zeros_like(column, at::device(device).dtype(at::kFloat)).unsqueeze(-1);
  }
  return at::zeros({rows, 1}, at::device(device).dtype(at::kFloat));
}

Estimator make_baseline(const std::string& estimator, const Head& head,
                        const OptimizerChoice& choice, RunConfig config) {
  const ModelFn model = [head, optimizer = choice.make(estimator, kLearningRate)](
                            const Features& features, const Labels& labels, Mode,
                            ModelContext& context) {
    const Tensor& bias = context.variable({.name = "baseline/bias",
                                           .shape = {head.logits_dimension()},
                                           .initializer = initializers::zeros()});
    return head.create_estimator_spec(context, features, labels,
                                      column_of(features, context.device()) + bias,
                                      {.optimizer = optimizer});
  };
  return Estimator(model, std::move(config));
}

}  // namespace

Estimator BaselineEstimator(const Head& head, const BaselineEstimatorOptions& options,
                            RunConfig config) {
  return make_baseline("BaselineEstimator", head, options.optimizer, std::move(config));
}

Estimator BaselineClassifier(const BaselineClassifierOptions& options, RunConfig config) {
  constexpr const char* kName = "BaselineClassifier";
  return make_baseline(kName,
                       internal::classifier_head(kName, options.n_classes, options.weight_column,
                                                 options.label_vocabulary, options.loss_reduction),
                       options.optimizer, std::move(config));
}

Estimator BaselineRegressor(const BaselineRegressorOptions& options, RunConfig config) {
  constexpr const char* kName = "BaselineRegressor";
  return make_baseline(kName,
                       internal::regressor_head(kName, options.label_dimension,
                                                options.weight_column, options.loss_reduction),
                       options.optimizer, std::move(config));
}

}  // namespace muster::inline v0_1
