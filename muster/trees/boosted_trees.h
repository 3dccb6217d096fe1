// Gradient-boosted trees as canned estimators, trained on one worker or several, with the same
// trees bit for bit. Thread safety: one thread.
//
//   BoostedTreesClassifier classifier({.n_trees = 100, .max_depth = 6}, {.model_dir = "model"});
//   classifier.train(train_input);
//   EvalResult result = classifier.evaluate(eval_input);  // {"accuracy": …, "auc": …, …}
//
// Features are a dict of numbers by name: [rows], or [rows, width], which are `width` columns. NaN
// is a missing value; each split sends it to the better side. Values are converted to float32. An
// input must return the whole data once, in batches of any size, in any order: no repeat(). A
// worker keeps its part in memory: about 7 bytes a value at the beginning and 2 later.
//
// These classes are not Estimators: a step reads all of the data, while a model function gets one
// batch, so hooks and train_and_evaluate() would have nothing to do between two batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/estimator/explanation.h"
#include "muster/estimator/run_config.h"
#include "muster/export/serving_input_receiver.h"
#include "muster/features/weight_column.h"
#include "muster/train/input_fn.h"
#include "muster/train/prediction.h"
#include "muster/train/results.h"
#include "muster/trees/ensemble.h"
#include "muster/trees/pruning_mode.h"

namespace muster::inline v0_1 {

// Options of BoostedTreesClassifier. Losses, and therefore the penalties, are sums over examples,
// not means.
struct BoostedTreesClassifierOptions {
  int64_t n_classes = 2;         // at least 2; with more, each round makes a tree for each class
  WeightColumn weight_column{};  // feature with the weights of examples; empty: 1
  std::vector<std::string> label_vocabulary = {};  // label texts, in the order of the classes
  int64_t n_trees = 100;                           // rounds; at least 1
  int64_t max_depth = 6;                           // from 1 to 16
  double learning_rate = 0.1;                      // of each tree; more than 0
  double l1_regularization = 0;                    // 0 or more, as the three below
  double l2_regularization = 0;
  double tree_complexity = 0;  // the gain that a split needs; only with pruning
  double min_node_weight = 0;  // the sum of second derivatives that a node needs
  bool center_bias = false;    // begins with the mean label; only for two classes
  trees::PruningMode pruning_mode = trees::PruningMode::kNone;
  // The features to use; empty: all except the weight column.
  std::vector<std::string> feature_names = {};
  // The features that are category numbers, at most 255 each: a split tests for one
  // category.
  std::vector<std::string> categorical_features = {};
};

// Options of BoostedTreesRegressor. Fields have the same meaning as in
// BoostedTreesClassifierOptions. The loss is half the squared error, so that a second derivative is
// a weight.
struct BoostedTreesRegressorOptions {
  WeightColumn weight_column{};
  int64_t n_trees = 100;
  int64_t max_depth = 6;
  double learning_rate = 0.1;
  double l1_regularization = 0;
  double l2_regularization = 0;
  double tree_complexity = 0;
  double min_node_weight = 0;
  bool center_bias = false;
  trees::PruningMode pruning_mode = trees::PruningMode::kNone;
  std::vector<std::string> feature_names = {};
  std::vector<std::string> categorical_features = {};
};

// Options of BoostedTrees::train(). A step is a layer of a tree; a run ends after the first
// complete tree that reaches the number.
struct BoostedTreesTrainOptions {
  std::optional<int64_t> steps{};      // more steps from the latest checkpoint
  std::optional<int64_t> max_steps{};  // the global step at which to end; at most one of the two is
                                       // set
};

// Options of BoostedTrees::evaluate().
struct BoostedTreesEvaluateOptions {
  std::optional<int64_t> steps{};                // batches; all of the data when unset
  std::string name{};                            // events go to eval/ or eval_<name>/
  std::optional<std::string> checkpoint_path{};  // the latest when unset
};

// Options of BoostedTrees::predict().
struct BoostedTreesPredictOptions {
  std::vector<std::string> predict_keys{};       // empty: all
  std::optional<std::string> checkpoint_path{};  // the latest when unset
  bool yield_single_examples = true;             // false: whole batches
  // Whether each prediction has its explanation: "bias" [logits] and "dfc" [columns, logits], the
  // directional contributions of column_names(), which add up to the logits.
  bool with_explanations = false;
};

// Options of BoostedTrees::export_model().
struct BoostedTreesExportOptions {
  std::optional<std::string> checkpoint_path{};  // the latest when unset
  // Formats in addition to TorchScript, if the program links muster::onnx: "onnx" adds model.onnx,
  // "saved_model" adds saved_model.pb and the folder variables.
  std::vector<std::string> formats{};
};

// Predictions, one example (or batch) at a time.
class MUSTER_EXPORT BoostedTreesPredictions {
 public:
  ~BoostedTreesPredictions();
  BoostedTreesPredictions(BoostedTreesPredictions&&) noexcept;
  // Returns nothing at the end. Throws InvalidArgument for an input that lacks a feature of the
  // trees.
  std::optional<Prediction> next();
  // The same, with the result in `*out`; false at the end.
  [[deprecated("next() gives an optional")]] bool next(Prediction* out) {
    std::optional<Prediction> prediction = next();
    if (prediction) *out = *std::move(prediction);
    return prediction.has_value();
  }

 private:
  friend class BoostedTrees;
  struct Impl;
  explicit BoostedTreesPredictions(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The common base of classifier and regressor.
class MUSTER_EXPORT BoostedTrees {
 public:
  ~BoostedTrees();
  BoostedTrees(BoostedTrees&&) noexcept;

  // Makes trees until there are n_trees. Continues from the latest checkpoint, with the same trees
  // as an uninterrupted run if the data is the same. Under multi_worker_mirrored() all tasks of the
  // cluster make this call, each with its part of the data. Throws InvalidArgument for invalid
  // labels, weights or features, for a data set that never ends, and for a checkpoint of other
  // features; Cancelled after saving, when this task is asked to stop; PeerLost, Timeout,
  // Unavailable when another task failed.
  TrainResult train(const InputFn& input_fn, const BoostedTreesTrainOptions& options = {});
  // Returns metrics over the data, computed by this process. Two classes: accuracy,
  // accuracy_baseline, auc, auc_precision_recall, average_loss, label/mean, loss, precision,
  // prediction/mean, recall. More classes: accuracy, average_loss, loss. Regressor: average_loss
  // (the squared error), label/mean, loss, prediction/mean. Always global_step. Throws NotFound
  // without a checkpoint.
  EvalResult evaluate(const InputFn& input_fn, const BoostedTreesEvaluateOptions& options = {});
  // Predicts. Two classes: logits, logistic [1], probabilities [2], class_ids [1], all_class_ids
  // [2]. More classes: the same without logistic. Regressor: predictions [1]. Labels of the input
  // are dropped. Throws NotFound without a checkpoint.
  BoostedTreesPredictions predict(const InputFn& input_fn,
                                  const BoostedTreesPredictOptions& options = {});

  // Returns the gain of the splits of each feature, the largest first; normalized, they add up to
  // 1. Throws NotFound without a checkpoint.
  std::vector<std::pair<std::string, double>> feature_importances(bool normalize = false) const;
  // Returns a row for each feature: the "gain" of its splits, its "share" of all gains, and the
  // number of "splits"; the largest gain first. Throws NotFound without a checkpoint.
  Explanation explain() const;
  // Returns the columns of the trees: features, and "x[0]", "x[1]", ... for wider ones.
  std::vector<std::string> column_names() const;
  // Returns the trees of the latest checkpoint. Throws NotFound without one.
  trees::Ensemble ensemble() const;
  // Exports the trees of a checkpoint as Estimator::export_model() exports a model: to a folder
  // `<export_dir>/<unix seconds>` that Servable, `muster serve` and PyTorch load. Returns its path,
  // on the chief. The signatures are those of a canned classifier or regressor: serving_default
  // with classification (the probabilities) or regression, and "predict" with the results of
  // predict(). `receiver` describes the features, [rows] or [rows, width] each, NaN for missing
  // values. Throws NotFound without a checkpoint; InvalidArgument for a receiver that lacks a
  // feature of the trees, or has an unknown one, and the errors of export_model().
  std::optional<std::string> export_model(const std::string& export_dir,
                                          const ServingInputReceiver& receiver,
                                          const BoostedTreesExportOptions& options = {});
  // Whether this task is the chief; true without a cluster.
  bool is_chief() const;
  // The directory in use; a temporary one when none was given.
  const std::string& model_dir() const;
  // The prefix of the newest checkpoint; nothing if the model was not trained.
  std::optional<std::string> latest_checkpoint() const;

 protected:
  struct Impl;
  explicit BoostedTrees(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Predicts a class.
class MUSTER_EXPORT BoostedTreesClassifier : public BoostedTrees {
 public:
  // Throws InvalidArgument if an option is outside its documented range, and for a RunConfig with a
  // setting that trees do not support: accumulate_steps, keep_best, warm_start_from.
  explicit BoostedTreesClassifier(const BoostedTreesClassifierOptions& options = {},
                                  const RunConfig& config = {});
};

// Predicts a number.
class MUSTER_EXPORT BoostedTreesRegressor : public BoostedTrees {
 public:
  // Throws the errors of BoostedTreesClassifier.
  explicit BoostedTreesRegressor(const BoostedTreesRegressorOptions& options = {},
                                 const RunConfig& config = {});
};

}  // namespace muster::inline v0_1
