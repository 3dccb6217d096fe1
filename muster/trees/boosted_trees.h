// Gradient-boosted trees as canned estimators: trained on one worker or several, which make the
// same trees, bit for bit. Thread safety: one thread.
//
//   BoostedTreesClassifier classifier({.n_trees = 100, .max_depth = 6}, {.model_dir = "model"});
//   classifier.train(train_input);
//   EvalResult result = classifier.evaluate(eval_input);  // {"accuracy": …, "auc": …, …}
//
// Features are a dict of numbers by name: [rows], or [rows, width], which are so many columns. NaN
// is a missing value, and goes the way that suits the labels best. They are taken as float32. An
// input gives the whole data once, in batches of any size, in any order: no repeat(). A worker
// keeps its part in memory, about 7 bytes a value while it begins and 2 later.
//
// They are no Estimators: a step of them reads all of the data, where a model function sees one
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

// Options of BoostedTreesClassifier. Losses, and with them the penalties, are sums over examples
// and not means.
struct BoostedTreesClassifierOptions {
  int64_t n_classes = 2;         // at least 2; with more, a tree for each a round
  WeightColumn weight_column{};  // the feature with the examples' weights; empty: 1
  std::vector<std::string> label_vocabulary = {};  // classes of labels that are strings
  int64_t n_trees = 100;                           // rounds; at least 1
  int64_t max_depth = 6;                           // from 1 to 16
  double learning_rate = 0.1;                      // of each tree; more than 0
  double l1_regularization = 0;                    // 0 or more, as the three below
  double l2_regularization = 0;
  double tree_complexity = 0;  // the gain that a split needs; with pruning alone
  double min_node_weight = 0;  // the sum of second derivatives that a node needs
  bool center_bias = false;    // begins with the mean label; of two classes alone
  trees::PruningMode pruning_mode = trees::PruningMode::kNone;
  // Features to ask; empty: all but the weight column.
  std::vector<std::string> feature_names = {};
  // Those of them that are numbers of categories, at most 255 each: a split asks for one of them.
  std::vector<std::string> categorical_features = {};
};

// Options of BoostedTreesRegressor; they mean what they mean there. The loss is half the squared
// error, so that a second derivative is a weight.
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

// Options of BoostedTrees::train(). A step is a layer of a tree; a run ends behind the first whole
// tree that reaches the number.
struct BoostedTreesTrainOptions {
  std::optional<int64_t> steps{};      // more, from the latest checkpoint
  std::optional<int64_t> max_steps{};  // the global step to end at; at most one of the two
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
  // Whether each prediction says what made it: "bias" [logits] and "dfc" [columns, logits], the
  // directional contributions of column_names(), add up to the logits.
  bool with_explanations = false;
};

// Options of BoostedTrees::export_model().
struct BoostedTreesExportOptions {
  std::optional<std::string> checkpoint_path{};  // the latest when unset
};

// Predictions, one example (or batch) at a time.
class MUSTER_EXPORT BoostedTreesPredictions {
 public:
  ~BoostedTreesPredictions();
  BoostedTreesPredictions(BoostedTreesPredictions&&) noexcept;
  // Nothing at the end. Throws InvalidArgument for an input without a feature the trees ask.
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

// What the two have in common.
class MUSTER_EXPORT BoostedTrees {
 public:
  ~BoostedTrees();
  BoostedTrees(BoostedTrees&&) noexcept;

  // Makes trees until there are n_trees; continues from the latest checkpoint, with the trees an
  // uninterrupted run would have made where the data is the same. Under multi_worker_mirrored() all
  // tasks of the cluster make this call, each with its part of the data. Throws InvalidArgument for
  // what the input holds: labels, weights, features, a data set that says it never ends; for a
  // checkpoint of other features; Cancelled after saving, when this task is asked to stop;
  // PeerLost, Timeout, Unavailable when another task failed.
  TrainResult train(const InputFn& input_fn, const BoostedTreesTrainOptions& options = {});
  // Metrics over the data, computed by this process: of two classes accuracy, accuracy_baseline,
  // auc, auc_precision_recall, average_loss, label/mean, loss, precision, prediction/mean, recall;
  // of more accuracy, average_loss, loss; of a regressor average_loss (the squared error),
  // label/mean, loss, prediction/mean; always global_step. Throws NotFound without a checkpoint.
  EvalResult evaluate(const InputFn& input_fn, const BoostedTreesEvaluateOptions& options = {});
  // Of two classes logits, logistic [1], probabilities [2], class_ids [1], all_class_ids [2]; of
  // more the same without logistic; of a regressor predictions [1]. Labels of the input are
  // dropped. Throws NotFound without a checkpoint.
  BoostedTreesPredictions predict(const InputFn& input_fn,
                                  const BoostedTreesPredictOptions& options = {});

  // How much the splits of each feature gained, the largest first; normalized, they add up to 1.
  // Throws NotFound without a checkpoint.
  std::vector<std::pair<std::string, double>> feature_importances(bool normalize = false) const;
  // What the splits of each feature gained, a row each: "gain", its "share" of all gains, and the
  // number of "splits"; the largest gain first. Throws NotFound without a checkpoint.
  Explanation explain() const;
  // The columns the trees ask: features, and "x[0]", "x[1]", ... of wider ones.
  std::vector<std::string> column_names() const;
  // The trees of the latest checkpoint. Throws NotFound without one.
  trees::Ensemble ensemble() const;
  // Exports the trees of a checkpoint as Estimator::export_model() does a model: a folder
  // `<export_dir>/<unix seconds>` that Servable, `muster serve` and PyTorch load; its path is
  // returned, on the chief. The signatures are those of a canned classifier or regressor:
  // serving_default with classification (the probabilities) or regression, and "predict" with what
  // predict() gives. `receiver` describes the features, [rows] or [rows, width] each, NaN for what
  // is missing. Throws NotFound without a checkpoint; InvalidArgument for a receiver that lacks a
  // feature the trees ask, or has one they were not told of, and what export_model() throws.
  std::optional<std::string> export_model(const std::string& export_dir,
                                          const ServingInputReceiver& receiver,
                                          const BoostedTreesExportOptions& options = {});
  // Whether this task speaks for its cluster; true without one.
  bool is_chief() const;
  // The directory in force; the temporary one when none was given.
  const std::string& model_dir() const;
  // Prefix of the newest checkpoint; nothing when the model was not trained.
  std::optional<std::string> latest_checkpoint() const;

 protected:
  struct Impl;
  explicit BoostedTrees(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Tells classes apart.
class MUSTER_EXPORT BoostedTreesClassifier : public BoostedTrees {
 public:
  // Throws InvalidArgument for an option that is not as said there, and for a RunConfig that asks
  // for what trees have not: accumulate_steps, keep_best, warm_start_from.
  explicit BoostedTreesClassifier(const BoostedTreesClassifierOptions& options = {},
                                  const RunConfig& config = {});
};

// Predicts a number.
class MUSTER_EXPORT BoostedTreesRegressor : public BoostedTrees {
 public:
  // Throws what BoostedTreesClassifier does.
  explicit BoostedTreesRegressor(const BoostedTreesRegressorOptions& options = {},
                                 const RunConfig& config = {});
};

}  // namespace muster::inline v0_1
