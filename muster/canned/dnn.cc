#include "muster/canned/dnn.h"

#include "muster/canned/internal/dnn_part.h"
#include "muster/canned/internal/head_of.h"

namespace muster::inline v0_1 {
namespace {

// The options of all three have the fields of the network.
template <typename Options>
Estimator make_dnn(const std::string& estimator, const Head& head, const Options& options,
                   RunConfig config) {
  const internal::DnnPart dnn(estimator,
                              {.feature_columns = options.feature_columns,
                               .hidden_units = options.hidden_units,
                               .activation_fn = options.activation_fn,
                               .dropout = options.dropout,
                               .batch_norm = options.batch_norm},
                              head.logits_dimension());
  const ModelFn model = [head, dnn, optimizer = options.optimizer.make(estimator)](
                            const Features& features, const Labels& labels, Mode,
                            ModelContext& context) {
    return head.create_estimator_spec(context, features, labels, dnn.logits(features, context),
                                      {.optimizer = optimizer});
  };
  return Estimator(model, std::move(config));
}

}  // namespace

Estimator DNNEstimator(const Head& head, const DNNEstimatorOptions& options, RunConfig config) {
  return make_dnn("DNNEstimator", head, options, std::move(config));
}

Estimator DNNClassifier(const DNNClassifierOptions& options, RunConfig config) {
  constexpr const char* kName = "DNNClassifier";
  return make_dnn(kName,
                  internal::classifier_head(kName, options.n_classes, options.weight_column,
                                            options.label_vocabulary, options.loss_reduction),
                  options, std::move(config));
}

Estimator DNNRegressor(const DNNRegressorOptions& options, RunConfig config) {
  constexpr const char* kName = "DNNRegressor";
  return make_dnn(kName,
                  internal::regressor_head(kName, options.label_dimension, options.weight_column,
                                           options.loss_reduction),
                  options, std::move(config));
}

}  // namespace muster::inline v0_1
