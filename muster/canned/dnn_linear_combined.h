// Wide and deep estimators (Cheng et al., 2016): the logits of a linear model and those of a
// network, added. Both learn from the same loss, and each optimizer updates the variables of its
// part alone. Names, defaults and numbers are tf.estimator's; variables, summaries and features are
// those of "muster/canned/linear.h" and "muster/canned/dnn.h". By name, a linear_optimizer has the
// learning rate min(0.005, 1 / sqrt(number of linear columns)) and a dnn_optimizer 0.001. Where
// both optimizers have one name, "Adam", they are called "linear_Adam" and "dnn_Adam". Thread
// safety: functions; as Estimator is what they give.
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

// Options of DNNLinearCombinedEstimator(). One of the parts may be left out, with its columns.
struct DNNLinearCombinedEstimatorOptions {
  std::vector<FeatureColumn> linear_feature_columns{};  // of any kind
  OptimizerChoice linear_optimizer = "Ftrl";
  std::vector<FeatureColumn> dnn_feature_columns{};  // dense ones
  OptimizerChoice dnn_optimizer = "Adagrad";
  std::vector<int64_t> dnn_hidden_units{};  // at least one layer, each at least 1
  Activation dnn_activation_fn = activations::relu;
  double dnn_dropout = 0;  // in [0, 1): the part that a step sets to 0
  bool batch_norm = false;
  // How the weights of several ids of one linear column become one.
  feature_column::Combiner linear_sparse_combiner = feature_column::Combiner::kSum;
};

// The logits are for that head. Throws InvalidArgument, which begins with the function's name, for
// no columns at all, dnn_feature_columns without dnn_hidden_units or these without those, two
// columns of one name in a part, one of the network that is not dense, sizes and dropout that are
// not as said there, and an unknown name of an optimizer; and what the Estimator's constructor
// throws.
MUSTER_EXPORT Estimator DNNLinearCombinedEstimator(const Head& head,
                                                   const DNNLinearCombinedEstimatorOptions& options,
                                                   RunConfig config = {});

// Options of DNNLinearCombinedClassifier(); those that are not explained are as in
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
  WeightColumn weight_column{};  // the feature with the weights of the examples; empty: 1
  // The names that labels are, in the order of the classes. Labels may also be their numbers.
  std::vector<std::string> label_vocabulary{};
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, V1's
  bool batch_norm = false;
  feature_column::Combiner linear_sparse_combiner = feature_column::Combiner::kSum;
};

// With BinaryClassHead() for two classes and MultiClassHead() for more. Throws InvalidArgument as
// DNNLinearCombinedEstimator() does, and for options that are not as said there.
MUSTER_EXPORT Estimator DNNLinearCombinedClassifier(
    const DNNLinearCombinedClassifierOptions& options, RunConfig config = {});

// Options of DNNLinearCombinedRegressor(); those that are not explained are as in
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
  WeightColumn weight_column{};  // the feature with the weights of the examples; empty: 1
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, V1's
  bool batch_norm = false;
  feature_column::Combiner linear_sparse_combiner = feature_column::Combiner::kSum;
};

// With RegressionHead(). Throws InvalidArgument as DNNLinearCombinedEstimator() does, and for
// options that are not as said there.
MUSTER_EXPORT Estimator DNNLinearCombinedRegressor(const DNNLinearCombinedRegressorOptions& options,
                                                   RunConfig config = {});

}  // namespace muster::inline v0_1
