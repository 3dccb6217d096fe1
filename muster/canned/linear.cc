#include "muster/canned/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/canned/internal/head_of.h"
#include "muster/canned/internal/linear_part.h"
#include "muster/canned/internal/sdca_part.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

constexpr double kLinearRate = 0.2;

// The options of all three have the fields of the linear model.
optim::Optimizer linear_optimizer(const std::string& estimator, const OptimizerChoice* choice,
                                  size_t columns) {
  if (choice != nullptr) return choice->make(estimator, kLinearRate);
  return optim::ftrl(
      {.learning_rate = std::min(kLinearRate, 1 / std::sqrt(static_cast<double>(columns)))});
}

const OptimizerChoice* gradients_of(const OptimizerChoice& choice) { return &choice; }
const OptimizerChoice* gradients_of(const LinearOptimizerChoice& choice) {
  return &choice.gradients();
}

template <typename Options>
Estimator make_linear(const std::string& estimator, const Head& head, const Options& options,
                      RunConfig config) {
  const internal::LinearPart linear(estimator, options.feature_columns, head.logits_dimension(),
                                    options.sparse_combiner);
  const optim::Optimizer optimizer =
      linear_optimizer(estimator, options.optimizer ? gradients_of(*options.optimizer) : nullptr,
                       options.feature_columns.size());
  const ModelFn model = [head, linear, optimizer](const Features& features, const Labels& labels,
                                                  Mode, ModelContext& context) {
    return head.create_estimator_spec(context, features, labels, linear.logits(features, context),
                                      {.optimizer = optimizer});
  };
  return Estimator(model, std::move(config));
}

// Options that LinearSDCA does not support.
template <typename Options>
void check_for_sdca(const std::string& estimator, const Options& options, const char* option,
                    int64_t value, int64_t most, const RunConfig& config) {
  const auto refuse = [&](const std::string& what, const char* hint) {
    throw invalid_argument(fmt::format("{}: not supported: LinearSDCA with {}", estimator, what),
                           hint);
  };
  if (value > most) {
    refuse(fmt::format("{} = {}; it must be {}", option, value, most),
           "take an optimizer of gradients, \"Ftrl\", for more logits");
  }
  if (options.sparse_combiner != feature_column::Combiner::kSum)
    refuse("another sparse_combiner than kSum", "weight the ids: weighted_categorical_column()");
  if (config.accumulate_steps != 1) {
    refuse(fmt::format("RunConfig.accumulate_steps = {}", config.accumulate_steps),
           "make batches larger: the examples of one are taken one after another");
  }
  if (config.warm_start_from)
    refuse("RunConfig.warm_start_from", "it begins with the dual variables, which are all 0");
}

template <typename Options>
Estimator make_sdca(const std::string& estimator, const Head& head, const Options& options,
                    internal::SdcaPartOptions part, RunConfig config) {
  const internal::LinearPart linear(estimator, options.feature_columns, 1, options.sparse_combiner);
  part.weight_column = options.weight_column;
  const internal::SdcaPart sdca(estimator, *options.optimizer->sdca(), std::move(part));
  const ModelFn model = [head, linear, sdca](const Features& features, const Labels& labels, Mode,
                                             ModelContext& context) {
    const at::NoGradGuard no_grad;
    return head.create_estimator_spec(context, features, labels, linear.logits(features, context),
                                      {.train_op_fn = [&](const Tensor&) {
                                        return sdca.train_op(features, labels, linear.model(),
                                                             internal::LinearPart::kModelScope,
                                                             context);
                                      }});
  };
  return Estimator(model, std::move(config));
}

template <typename Options>
bool wants_sdca(const Options& options) {
  return options.optimizer && options.optimizer->sdca() != nullptr;
}

}  // namespace

Estimator LinearEstimator(const Head& head, const LinearEstimatorOptions& options,
                          RunConfig config) {
  return make_linear("LinearEstimator", head, options, std::move(config));
}

Estimator LinearClassifier(const LinearClassifierOptions& options, RunConfig config) {
  constexpr const char* kName = "LinearClassifier";
  const Head head = internal::classifier_head(kName, options.n_classes, options.weight_column,
                                              options.label_vocabulary, options.loss_reduction);
  if (!wants_sdca(options)) return make_linear(kName, head, options, std::move(config));
  check_for_sdca(kName, options, "n_classes", options.n_classes, 2, config);
  return make_sdca(
      kName, head, options,
      {.loss = internal::SdcaLoss::kLogistic, .label_vocabulary = options.label_vocabulary},
      std::move(config));
}

Estimator LinearRegressor(const LinearRegressorOptions& options, RunConfig config) {
  constexpr const char* kName = "LinearRegressor";
  const Head head = internal::regressor_head(kName, options.label_dimension, options.weight_column,
                                             options.loss_reduction);
  if (!wants_sdca(options)) return make_linear(kName, head, options, std::move(config));
  check_for_sdca(kName, options, "label_dimension", options.label_dimension, 1, config);
  return make_sdca(kName, head, options, {.loss = internal::SdcaLoss::kSquared}, std::move(config));
}

}  // namespace muster::inline v0_1
