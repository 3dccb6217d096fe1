// Estimators that see no features: what they reach is what others are to be compared with. Their
// model is one vector of logits, "baseline/bias", which begins at 0 and is the same for every
// example; of the features only the number of rows counts. So they learn the mean of the labels, or
// how frequent each class is. Names, defaults and numbers are tf.estimator's; the optimizer they
// name has the learning rate 0.3.
// Thread safety: functions; as Estimator is what they give.
//
//   Estimator baseline = BaselineClassifier({.n_classes = 3}, {.model_dir = "baseline"});
//   baseline.train(input, {.max_steps = 100});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/canned/optimizer_choice.h"
#include "muster/estimator/estimator.h"
#include "muster/features/weight_column.h"
#include "muster/heads/head.h"

namespace muster::inline v0_1 {

// Options of BaselineEstimator().
struct BaselineEstimatorOptions {
  OptimizerChoice optimizer = "Ftrl";
};

// The logits are for that head. Throws InvalidArgument for an unknown name of an optimizer, and
// what the Estimator's constructor throws.
MUSTER_EXPORT Estimator BaselineEstimator(const Head& head,
                                          const BaselineEstimatorOptions& options = {},
                                          RunConfig config = {});

// Options of BaselineClassifier().
struct BaselineClassifierOptions {
  int64_t n_classes = 2;         // at least 2
  WeightColumn weight_column{};  // the feature with the weights of the examples; empty: 1
  // The names that labels are, in the order of the classes. Labels may also be their numbers.
  std::vector<std::string> label_vocabulary{};
  OptimizerChoice optimizer = "Ftrl";
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, V1's
};

// With BinaryClassHead() for two classes and MultiClassHead() for more. Throws InvalidArgument for
// options that are not as said there.
MUSTER_EXPORT Estimator BaselineClassifier(const BaselineClassifierOptions& options = {},
                                           RunConfig config = {});

// Options of BaselineRegressor().
struct BaselineRegressorOptions {
  int64_t label_dimension = 1;   // at least 1
  WeightColumn weight_column{};  // the feature with the weights of the examples; empty: 1
  OptimizerChoice optimizer = "Ftrl";
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, V1's
};

// With RegressionHead(). Throws InvalidArgument for options that are not as said there.
MUSTER_EXPORT Estimator BaselineRegressor(const BaselineRegressorOptions& options = {},
                                          RunConfig config = {});

}  // namespace muster::inline v0_1
