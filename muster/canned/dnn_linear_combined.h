// Wide and deep estimators (Cheng et al., 2016): the sum of the logits of a linear model and of a
// network. Both learn from the same loss, and each optimizer updates only the variables of its
// part. Names, defaults and numbers are tf.estimator's; variables, summaries and features are those
// of "muster/canned/linear.h" and "muster/canned/dnn.h". Chosen by name, a linear_optimizer has the
// learning rate min(0.005, 1 / sqrt(number of linear columns)) and a dnn_optimizer 0.001. If both
// optimizers have the same name, "Adam", they are called "linear_Adam" and "dnn_Adam". Thread
// safety: functions; their results as Estimator.
//
//   Estimator model = DNNLinearCombinedClassifier(
//       {.linear_feature_columns = {job, age_x_job},
//        .dnn_feature_columns = {age, embedding_column(job, 8)},
//        .dnn_hidden_units = {64, 32}},
//       {.model_dir = "census"});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/canned/optimizer_choice.h"
#include "muster/estimator/estimator.h"
#include "muster/features/combiner.h"
#include "muster/features/feature_column.h"
#include "muster/features/weight_column.h"
#include "muster/heads/head.h"
#include "muster/layers/activations.h"

namespace muster::inline v0_1 {

// Options of DNNLinearCombinedEstimator(). You may leave out one part, with its columns.
struct DNNLinearCombinedEstimatorOptions {
  std::vector<FeatureColumn> linear_feature_columns{};  // of any kind
  OptimizerChoice linear_optimizer = "Ftrl";
  std::vector<FeatureColumn> dnn_feature_columns{};  // dense ones
  OptimizerChoice dnn_optimizer = "Adagrad";
  std::vector<int64_t> dnn_hidden_units{};  // at least one layer, each at least 1
  Activation dnn_activation_fn = activations::relu;
  double dnn_dropout = 0;  // in [0, 1): the fraction that a step sets to 0
  bool batch_norm = false;
  // How to combine the weights of several ids of one linear column.
  feature_column::Combiner linear_sparse_combiner = feature_column::Combiner::kSum;
};

// Makes logits for `head`. Throws InvalidArgument, which begins with the function's name, without
// any columns, for dnn_feature_columns without dnn_hidden_units or vice versa, for two columns of
// one name in a part, for a column of the network that is not dense, if sizes or dropout are
// outside their documented range, and for an unknown name of an optimizer; and the errors of the
// Estimator's constructor.
MUSTER_EXPORT Estimator DNNLinearCombinedEstimator(const Head& head,
                                                   const DNNLinearCombinedEstimatorOptions& options,
                                                   RunConfig config = {});

// Options of DNNLinearCombinedClassifier(). Fields without a comment are as in
// DNNLinearCombinedEstimatorOptions.
struct DNNLinearCombinedClassifierOptions {
  std::vector<FeatureColumn> linear_feature_columns{};
  OptimizerChoice linear_optimizer = "Ftrl";
  std::vector<FeatureColumn> dnn_feature_columns{};
  OptimizerChoice dnn_optimizer = "Adagrad";
  std::vector<int64_t> dnn_hidden_units{};
  Activation dnn_activation_fn = activations::relu;
  double dnn_dropout = 0;
  int64_t n_classes = 2;         // at least 2
  WeightColumn weight_column{};  // feature with the weights of examples; empty: 1
  // The label texts, in the order of the classes. Labels may also be class numbers.
  std::vector<std::string> label_vocabulary{};
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
  bool batch_norm = false;
  feature_column::Combiner linear_sparse_combiner = feature_column::Combiner::kSum;
};

// Uses BinaryClassHead() for two classes and MultiClassHead() for more. Throws InvalidArgument as
// DNNLinearCombinedEstimator() does, and if an option is outside its documented range.
MUSTER_EXPORT Estimator DNNLinearCombinedClassifier(
    const DNNLinearCombinedClassifierOptions& options, RunConfig config = {});

// Options of DNNLinearCombinedRegressor(). Fields without a comment are as in
// DNNLinearCombinedEstimatorOptions.
struct DNNLinearCombinedRegressorOptions {
  std::vector<FeatureColumn> linear_feature_columns{};
  OptimizerChoice linear_optimizer = "Ftrl";
  std::vector<FeatureColumn> dnn_feature_columns{};
  OptimizerChoice dnn_optimizer = "Adagrad";
  std::vector<int64_t> dnn_hidden_units{};
  Activation dnn_activation_fn = activations::relu;
  double dnn_dropout = 0;
  int64_t label_dimension = 1;   // at least 1
  WeightColumn weight_column{};  // feature with the weights of examples; empty: 1
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
  bool batch_norm = false;
  feature_column::Combiner linear_sparse_combiner = feature_column::Combiner::kSum;
};

// Uses RegressionHead(). Throws InvalidArgument as DNNLinearCombinedEstimator() does, and if an
// option is outside its documented range.
MUSTER_EXPORT Estimator DNNLinearCombinedRegressor(const DNNLinearCombinedRegressorOptions& options,
                                                   RunConfig config = {});

}  // namespace muster::inline v0_1
