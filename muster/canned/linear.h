// Estimators whose logits are the sum of weighted feature columns and a bias: logistic regression
// and least squares. Names, defaults and numbers are tf.estimator's: variables are
// "linear/linear_model/<column>/weights" [num_buckets or numbers, logits] and
// "linear/linear_model/bias_weights" [logits], initially 0; TensorBoard shows "bias" and
// "fraction_of_zero_weights". A step updates only the rows of the ids in its batch, also with
// several workers. An optimizer chosen by name has the learning rate 0.2.
// Features are a dict. For speed, apply feature_column::resolve(columns) in the input function;
// unresolved features are resolved in the step, which is slower.
// Thread safety: functions; their results as Estimator.
//
//   Estimator model = LinearClassifier({.feature_columns = {age, job, age_x_job}},
//                                      {.model_dir = "census"});
//   model.train(input, {.max_steps = 1000});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/canned/linear_sdca.h"
#include "muster/canned/optimizer_choice.h"
#include "muster/estimator/estimator.h"
#include "muster/features/combiner.h"
#include "muster/features/feature_column.h"
#include "muster/features/weight_column.h"
#include "muster/heads/head.h"

namespace muster::inline v0_1 {

// Options of LinearEstimator().
struct LinearEstimatorOptions {
  std::vector<FeatureColumn> feature_columns{};  // of any kind, at least one
  // Unset: Ftrl with the learning rate min(0.2, 1 / sqrt(number of columns)).
  std::optional<OptimizerChoice> optimizer = "Ftrl";
  // How to combine the weights of several ids of one column.
  feature_column::Combiner sparse_combiner = feature_column::Combiner::kSum;
};

// Makes logits for `head`. Throws InvalidArgument, which begins with the function's name, without
// columns, for two columns of one name, and for an unknown name of an optimizer; and the errors of
// the Estimator's constructor.
MUSTER_EXPORT Estimator LinearEstimator(const Head& head, const LinearEstimatorOptions& options,
                                        RunConfig config = {});

// Options of LinearClassifier().
struct LinearClassifierOptions {
  std::vector<FeatureColumn> feature_columns{};  // of any kind, at least one
  int64_t n_classes = 2;                         // at least 2
  WeightColumn weight_column{};                  // feature with the weights of examples; empty: 1
  // The label texts, in the order of the classes. Labels may also be class numbers.
  std::vector<std::string> label_vocabulary{};
  // As in LinearEstimatorOptions, or LinearSDCA{...}.
  std::optional<LinearOptimizerChoice> optimizer = "Ftrl";
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
  feature_column::Combiner sparse_combiner = feature_column::Combiner::kSum;
};

// Uses BinaryClassHead() for two classes and MultiClassHead() for more. Throws InvalidArgument as
// LinearEstimator() does, and if an option is outside its documented range; with LinearSDCA also
// for more than two classes, for another sparse_combiner than kSum, for a RunConfig whose
// accumulate_steps is not 1, and for one with warm_start_from.
MUSTER_EXPORT Estimator LinearClassifier(const LinearClassifierOptions& options,
                                         RunConfig config = {});

// Options of LinearRegressor().
struct LinearRegressorOptions {
  std::vector<FeatureColumn> feature_columns{};  // of any kind, at least one
  int64_t label_dimension = 1;                   // at least 1
  WeightColumn weight_column{};                  // feature with the weights of examples; empty: 1
  // As in LinearEstimatorOptions, or LinearSDCA{...}.
  std::optional<LinearOptimizerChoice> optimizer = "Ftrl";
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
  feature_column::Combiner sparse_combiner = feature_column::Combiner::kSum;
};

// Uses RegressionHead(). Throws InvalidArgument as LinearClassifier() does, and with LinearSDCA for
// a label_dimension above 1.
MUSTER_EXPORT Estimator LinearRegressor(const LinearRegressorOptions& options,
                                        RunConfig config = {});

}  // namespace muster::inline v0_1
