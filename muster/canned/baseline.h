// Estimators that ignore the features: a baseline for others. Their model is one vector of logits,
// "baseline/bias", which is initially 0 and the same for every example; of the features only the
// number of rows is used. So they learn the mean of the labels, or the frequency of each class.
// Names, defaults and numbers are tf.estimator's; an optimizer chosen by name has the learning rate
// 0.3.
// Thread safety: functions; their results as Estimator.
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

// Makes logits for `head`. Throws InvalidArgument for an unknown name of an optimizer, and the
// errors of the Estimator's constructor.
MUSTER_EXPORT Estimator BaselineEstimator(const Head& head,
                                          const BaselineEstimatorOptions& options = {},
                                          RunConfig config = {});

// Options of BaselineClassifier().
struct BaselineClassifierOptions {
  int64_t n_classes = 2;         // at least 2
  WeightColumn weight_column{};  // feature with the weights of examples; empty: 1
  // The label texts, in the order of the classes. Labels may also be class numbers.
  std::vector<std::string> label_vocabulary{};
  OptimizerChoice optimizer = "Ftrl";
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
};

// Uses BinaryClassHead() for two classes and MultiClassHead() for more. Throws InvalidArgument if
// an option is outside its documented range.
MUSTER_EXPORT Estimator BaselineClassifier(const BaselineClassifierOptions& options = {},
                                           RunConfig config = {});

// Options of BaselineRegressor().
struct BaselineRegressorOptions {
  int64_t label_dimension = 1;   // at least 1
  WeightColumn weight_column{};  // feature with the weights of examples; empty: 1
  OptimizerChoice optimizer = "Ftrl";
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
};

// Uses RegressionHead(). Throws InvalidArgument if an option is outside its documented range.
MUSTER_EXPORT Estimator BaselineRegressor(const BaselineRegressorOptions& options = {},
                                          RunConfig config = {});

}  // namespace muster::inline v0_1
