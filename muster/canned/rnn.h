// Estimators with a recurrent network over sequences. Names, defaults and numbers are
// tf.estimator.experimental's. The sequence columns are concatenated in the order of their names,
// and the context columns of an example are appended to each of its steps. Then follow the
// recurrent layers, and Dense, which makes logits from the output of the last step, or of each
// step. Padding is ignored everywhere.
//   variables: "rnn_model/rnn/kernel", "recurrent_kernel" and "bias", those of further layers in
//     "rnn_model/rnn_1/" and so on; "rnn_model/logits/kernel" and "bias";
//     "rnn_model/sequence_features/<column>/embedding_weights", and those of the context in
//     "rnn_model/dense_features/". Those of an rnn_cell_fn are in "rnn_model/<cell>/".
//   TensorBoard: the histogram "rnn_model/sequence_input_layer/sequence_length".
// An optimizer chosen by name has the learning rate 0.05, and the gradient of each variable is
// clipped to a norm of 5; your own optimizer is used unchanged.
// Thread safety: functions; their results as Estimator.
//
//   const auto words = sequence_categorical_column_with_hash_bucket("words", 1000);
//   Estimator model = RNNClassifier({.sequence_feature_columns = {embedding_column(words, 16)},
//                                    .units = {32},
//                                    .cell_type = "lstm"},
//                                   {.model_dir = "reviews"});
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/canned/optimizer_choice.h"
#include "muster/estimator/estimator.h"
#include "muster/features/feature_column.h"
#include "muster/features/weight_column.h"
#include "muster/heads/head.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Options of RNNEstimator().
struct RNNEstimatorOptions {
  std::vector<FeatureColumn> sequence_feature_columns{};  // sequence columns, dense, at least one
  std::vector<FeatureColumn> context_feature_columns{};   // dense columns of the whole example
  std::vector<int64_t> units{};  // of each recurrent layer; at least one, each at least 1
  std::string cell_type{};       // "simple_rnn" (when empty), "lstm" or "gru"
  // Makes the cell, instead of units and cell_type: a built-in cell with other options,
  // StackedRNNCells(), or your own.
  std::function<Layer()> rnn_cell_fn{};
  bool return_sequences = false;  // logits of each step; use a SequentialHeadWrapper() as head
  OptimizerChoice optimizer = "Adagrad";
};

// Makes logits for `head`. Throws InvalidArgument, which begins with the function's name, for
// columns that SequenceFeatures and DenseFeatures refuse, if an option is outside its documented
// range, and for an unknown name of a cell or an optimizer; and the errors of the Estimator's
// constructor.
MUSTER_EXPORT Estimator RNNEstimator(const Head& head, const RNNEstimatorOptions& options,
                                     RunConfig config = {});

// Options of RNNClassifier(). Fields without a comment are as in RNNEstimatorOptions.
struct RNNClassifierOptions {
  std::vector<FeatureColumn> sequence_feature_columns{};
  std::vector<FeatureColumn> context_feature_columns{};
  std::vector<int64_t> units{};
  std::string cell_type{};
  std::function<Layer()> rnn_cell_fn{};
  // Whether each step has a class: labels, and weights if used, are then [batch, steps], padded
  // like the sequences. The loss is the mean over all unmasked steps, and metrics count only these.
  bool return_sequences = false;
  int64_t n_classes = 2;         // at least 2
  WeightColumn weight_column{};  // feature with the weights of examples; empty: 1
  // The label texts, in the order of the classes. Labels may also be class numbers.
  std::vector<std::string> label_vocabulary{};
  OptimizerChoice optimizer = "Adagrad";
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
  // With return_sequences: the feature [batch, steps] that selects the steps that count, if the
  // features have it; else the lengths of the sequences do. Predictions contain it under this name.
  std::string sequence_mask = "sequence_mask";
};

// Uses BinaryClassHead() for two classes and MultiClassHead() for more. Throws InvalidArgument as
// RNNEstimator() does, and if an option is outside its documented range.
MUSTER_EXPORT Estimator RNNClassifier(const RNNClassifierOptions& options, RunConfig config = {});

// Options of RNNRegressor(). Fields have the same meaning as in RNNClassifierOptions.
struct RNNRegressorOptions {
  std::vector<FeatureColumn> sequence_feature_columns{};
  std::vector<FeatureColumn> context_feature_columns{};
  std::vector<int64_t> units{};
  std::string cell_type{};
  std::function<Layer()> rnn_cell_fn{};
  bool return_sequences = false;
  int64_t label_dimension = 1;  // at least 1
  WeightColumn weight_column{};
  OptimizerChoice optimizer = "Adagrad";
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;
  std::string sequence_mask = "sequence_mask";
};

// Uses RegressionHead(). Throws InvalidArgument as RNNEstimator() does, and if an option is outside
// its documented range.
MUSTER_EXPORT Estimator RNNRegressor(const RNNRegressorOptions& options, RunConfig config = {});

}  // namespace muster::inline v0_1
