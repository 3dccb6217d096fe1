// Estimators with a feed-forward network over dense feature columns. Names, defaults and numbers
// are tf.estimator's. The columns are concatenated in the order of their names. Each hidden layer
// is Dense (glorot_uniform, bias 0) with activation_fn, then dropout, then BatchNormalization
// (momentum 0.999, epsilon 0.001). The last layer, Dense, makes the logits.
//   variables: "dnn/hiddenlayer_0/kernel" and "bias", "dnn/logits/kernel" and "bias",
//     "dnn/hiddenlayer_0/batchnorm_0/gamma", "beta", "moving_mean" and "moving_variance",
//     "dnn/input_from_feature_columns/input_layer/<column>/embedding_weights".
//   TensorBoard: "fraction_of_zero_values" and the histogram "activation" in "dnn/hiddenlayer_0/"
//     and so on, and in "dnn/logits/".
// An optimizer chosen by name has its own default learning rate: 0.001, and SGD 0.01.
// Features are a dict. For speed, apply feature_column::resolve(columns) in the input function;
// unresolved features are resolved in the step, which is slower.
// Thread safety: functions; their results as Estimator.
//
//   Estimator model = DNNClassifier({.hidden_units = {64, 32},
//                                    .feature_columns = {age, embedding_column(job, 8)},
//                                    .n_classes = 3},
//                                   {.model_dir = "census"});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/canned/optimizer_choice.h"
#include "muster/estimator/estimator.h"
#include "muster/features/feature_column.h"
#include "muster/features/weight_column.h"
#include "muster/heads/head.h"
#include "muster/layers/activations.h"

namespace muster::inline v0_1 {

// Options of DNNEstimator().
struct DNNEstimatorOptions {
  std::vector<int64_t> hidden_units{};           // at least one layer, each at least 1
  std::vector<FeatureColumn> feature_columns{};  // dense ones, at least one
  OptimizerChoice optimizer = "Adagrad";
  Activation activation_fn = activations::relu;  // of the hidden layers
  double dropout = 0;                            // in [0, 1): the fraction that a step sets to 0
  bool batch_norm = false;
};

// Makes logits for `head`. Throws InvalidArgument, which begins with the function's name, without
// columns, for two columns of one name, for one that is not dense, if hidden_units or dropout is
// outside its documented range, and for an unknown name of an optimizer; and the errors of the
// Estimator's constructor.
MUSTER_EXPORT Estimator DNNEstimator(const Head& head, const DNNEstimatorOptions& options,
                                     RunConfig config = {});

// Options of DNNClassifier(). Fields without a comment are as in DNNEstimatorOptions.
struct DNNClassifierOptions {
  std::vector<int64_t> hidden_units{};
  std::vector<FeatureColumn> feature_columns{};
  int64_t n_classes = 2;         // at least 2
  WeightColumn weight_column{};  // feature with the weights of examples; empty: 1
  // The label texts, in the order of the classes. Labels may also be class numbers.
  std::vector<std::string> label_vocabulary{};
  OptimizerChoice optimizer = "Adagrad";
  Activation activation_fn = activations::relu;
  double dropout = 0;
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
  bool batch_norm = false;
};

// Uses BinaryClassHead() for two classes and MultiClassHead() for more. Throws InvalidArgument as
// DNNEstimator() does, and if an option is outside its documented range.
MUSTER_EXPORT Estimator DNNClassifier(const DNNClassifierOptions& options, RunConfig config = {});

// Options of DNNRegressor(). Fields without a comment are as in DNNEstimatorOptions.
struct DNNRegressorOptions {
  std::vector<int64_t> hidden_units{};
  std::vector<FeatureColumn> feature_columns{};
  int64_t label_dimension = 1;   // at least 1
  WeightColumn weight_column{};  // feature with the weights of examples; empty: 1
  OptimizerChoice optimizer = "Adagrad";
  Activation activation_fn = activations::relu;
  double dropout = 0;
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
  bool batch_norm = false;
};

// Uses RegressionHead(). Throws InvalidArgument as DNNEstimator() does, and if an option is outside
// its documented range.
MUSTER_EXPORT Estimator DNNRegressor(const DNNRegressorOptions& options, RunConfig config = {});

}  // namespace muster::inline v0_1
