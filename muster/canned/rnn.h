// Estimators whose logits a recurrent network computes of sequences. Names, defaults and numbers
// are tf.estimator.experimental's. The sequence columns are joined in the order of their names, and
// what the context columns say of an example is added to each of its steps; then come the recurrent
// layers, and Dense, which makes logits of the output of the last step, or of each step. Padding
// counts nowhere.
//   variables: "rnn_model/rnn/kernel", "recurrent_kernel" and "bias", those of further layers in
//     "rnn_model/rnn_1/" and so on; "rnn_model/logits/kernel" and "bias";
//     "rnn_model/sequence_features/<column>/embedding_weights", and those of the context in
//     "rnn_model/dense_features/". Those of an rnn_cell_fn are in "rnn_model/<cell>/".
//   TensorBoard: the histogram "rnn_model/sequence_input_layer/sequence_length".
// An optimizer by name has the learning rate 0.05, and the gradient of each variable is shortened
// to a norm of 5; an optimizer that is given is taken as it is.
// Thread safety: functions; as Estimator is what they give.
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
  std::vector<FeatureColumn> sequence_feature_columns{};  // of sequences, dense, at least one
  std::vector<FeatureColumn> context_feature_columns{};   // dense ones, of an example as a whole
  std::vector<int64_t> units{};  // of each recurrent layer; at least one, each at least 1
  std::string cell_type{};       // "simple_rnn", which it is when empty, "lstm" or "gru"
  // Makes the cell, in place of units and cell_type: a built-in one with options of its own,
  // StackedRNNCells(), or one's own.
  std::function<Layer()> rnn_cell_fn{};
  bool return_sequences = false;  // logits of each step; the head is a SequentialHeadWrapper() then
  OptimizerChoice optimizer = "Adagrad";
};

// The logits are for that head. Throws InvalidArgument, which begins with the function's name, for
// columns that SequenceFeatures and DenseFeatures refuse, options that are not as said there, and
// an unknown name of a cell or an optimizer; and what the Estimator's constructor throws.
MUSTER_EXPORT Estimator RNNEstimator(const Head& head, const RNNEstimatorOptions& options,
                                     RunConfig config = {});

// Options of RNNClassifier(); those that are not explained are as in RNNEstimatorOptions.
struct RNNClassifierOptions {
  std::vector<FeatureColumn> sequence_feature_columns{};
  std::vector<FeatureColumn> context_feature_columns{};
  std::vector<int64_t> units{};
  std::string cell_type{};
  std::function<Layer()> rnn_cell_fn{};
  // A class for each step: labels, and weights where there are some, are [batch, steps], padded as
  // the sequences are. The loss is the mean over all steps that count, and metrics count these.
  bool return_sequences = false;
  int64_t n_classes = 2;         // at least 2
  WeightColumn weight_column{};  // the feature with the weights of the examples; empty: 1
  // The names that labels are, in the order of the classes. Labels may also be their numbers.
  std::vector<std::string> label_vocabulary{};
  OptimizerChoice optimizer = "Adagrad";
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, V1's
  // With return_sequences: the feature [batch, steps] that tells which steps count, where the
  // features have one; else the lengths of the sequences tell. Predictions have it by this name.
  std::string sequence_mask = "sequence_mask";
};

// With BinaryClassHead() for two classes and MultiClassHead() for more. Throws InvalidArgument as
// RNNEstimator() does, and for options that are not as said there.
MUSTER_EXPORT Estimator RNNClassifier(const RNNClassifierOptions& options, RunConfig config = {});

// Options of RNNRegressor(); they mean what they mean in RNNClassifierOptions.
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

// With RegressionHead(). Throws InvalidArgument as RNNEstimator() does, and for options that are
// not as said there.
MUSTER_EXPORT Estimator RNNRegressor(const RNNRegressorOptions& options, RunConfig config = {});

}  // namespace muster::inline v0_1
