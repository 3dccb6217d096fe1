// Estimators whose logits are a sum over feature columns, of numbers times weights, and a bias:
// logistic regression and least squares. Names, defaults and numbers are tf.estimator's: variables
// are "linear/linear_model/<column>/weights" [num_buckets or numbers, logits] and
// "linear/linear_model/bias_weights" [logits], 0 at first; TensorBoard shows "bias" and
// "fraction_of_zero_weights". A step updates only the rows of the ids that are in its batch, on
// several workers too. An optimizer by name has the learning rate 0.2.
// Features are a dict, best as feature_column::resolve(columns) gives it in the input function;
// those that were not resolved are resolved in the step, which is slower.
// Thread safety: functions; as Estimator is what they give.
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
  // How the weights of several ids of one column become one.
  feature_column::Combiner sparse_combiner = feature_column::Combiner::kSum;
};

// The logits are for that head. Throws InvalidArgument, which begins with the function's name, for
// no columns, two of one name, and an unknown name of an optimizer; and what the Estimator's
// constructor throws.
MUSTER_EXPORT Estimator LinearEstimator(const Head& head, const LinearEstimatorOptions& options,
                                        RunConfig config = {});

// Options of LinearClassifier().
struct LinearClassifierOptions {
  std::vector<FeatureColumn> feature_columns{};  // of any kind, at least one
  int64_t n_classes = 2;                         // at least 2
  WeightColumn weight_column{};  // the feature with the weights of the examples; empty: 1
  // The names that labels are, in the order of the classes. Labels may also be their numbers.
  std::vector<std::string> label_vocabulary{};
  // As LinearEstimatorOptions has it, or LinearSDCA{...}.
  std::optional<LinearOptimizerChoice> optimizer = "Ftrl";
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, V1's
  feature_column::Combiner sparse_combiner = feature_column::Combiner::kSum;
};

// With BinaryClassHead() for two classes and MultiClassHead() for more. Throws InvalidArgument as
// LinearEstimator() does, and for options that are not as said there; with LinearSDCA also for more
// than two classes, another sparse_combiner than kSum, a RunConfig whose accumulate_steps is not 1,
// and one with warm_start_from.
MUSTER_EXPORT Estimator LinearClassifier(const LinearClassifierOptions& options,
                                         RunConfig config = {});

// Options of LinearRegressor().
struct LinearRegressorOptions {
  std::vector<FeatureColumn> feature_columns{};  // of any kind, at least one
  int64_t label_dimension = 1;                   // at least 1
  WeightColumn weight_column{};  // the feature with the weights of the examples; empty: 1
  // As LinearEstimatorOptions has it, or LinearSDCA{...}.
  std::optional<LinearOptimizerChoice> optimizer = "Ftrl";
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, V1's
  feature_column::Combiner sparse_combiner = feature_column::Combiner::kSum;
};

// With RegressionHead(). Throws InvalidArgument as LinearClassifier() does; with LinearSDCA for a
// label_dimension of more than 1.
MUSTER_EXPORT Estimator LinearRegressor(const LinearRegressorOptions& options,
                                        RunConfig config = {});

}  // namespace muster::inline v0_1
