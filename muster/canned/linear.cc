#include "muster/canned/linear.h"

#include <algorithm>
#include <cmath>

#include "muster/canned/internal/head_of.h"
#include "muster/canned/internal/linear_part.h"

namespace muster::inline v0_1 {
namespace {

constexpr double kLinearRate = 0.2;

// The options of all three have the fields of the linear model.
template <typename Options>
optim::Optimizer linear_optimizer(const std::string& estimator, const Options& options) {
  if (options.optimizer) return options.optimizer->make(estimator, kLinearRate);
  const auto columns = static_cast<double>(options.feature_columns.size());
  return optim::ftrl({.learning_rate = std::min(kLinearRate, 1 / std::sqrt(columns))});
}

template <typename Options>
Estimator make_linear(const std::string& estimator, const Head& head, const Options& options,
                      RunConfig config) {
  const internal::LinearPart linear(estimator, options.feature_columns, head.logits_dimension(),
                                    options.sparse_combiner);
  const ModelFn model = [head, linear, optimizer = linear_optimizer(estimator, options)](
                            const Features& features, const Labels& labels, Mode,
                            ModelContext& context) {
    return head.create_estimator_spec(context, features, labels, linear.logits(features, context),
                                      {.optimizer = optimizer});
  };
  return Estimator(model, std::move(config));
}

}  // namespace

Estimator LinearEstimator(const Head& head, const LinearEstimatorOptions& options,
                          RunConfig config) {
  return make_linear("LinearEstimator", head, options, std::move(config));
}

Estimator LinearClassifier(const LinearClassifierOptions& options, RunConfig config) {
  constexpr const char* kName = "LinearClassifier";
  return make_linear(kName,
                     internal::classifier_head(kName, options.n_classes, options.weight_column,
                                               options.label_vocabulary, options.loss_reduction),
                     options, std::move(config));
}

Estimator LinearRegressor(const LinearRegressorOptions& options, RunConfig config) {
  constexpr const char* kName = "LinearRegressor";
  return make_linear(kName,
                     internal::regressor_head(kName, options.label_dimension, options.weight_column,
                                              options.loss_reduction),
                     options, std::move(config));
}

}  // namespace muster::inline v0_1
