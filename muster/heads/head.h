// A Head defines the use of a model's logits: the loss, the metrics, the predictions, and the
// signatures of an exported model. A model function computes logits and leaves the rest to the
// head:
//
//   const Head head = BinaryClassHead({.weight_column = "weight"});
//   ...
//   return head.create_estimator_spec(context, features, labels, logits,
//                                     {.optimizer = optim::adam()});
//
// The heads are BinaryClassHead(), MultiClassHead(), MultiLabelHead(), RegressionHead(),
// PoissonRegressionHead(), LogisticRegressionHead() and MultiHead(); SequentialHeadWrapper()
// applies a head to each step of sequences. Names, defaults and numbers are tf.estimator's.
// docs/heads.md has a table of them.
// Thread safety: immutable values; may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/losses/reduction.h"
#include "muster/metrics/metric.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/features.h"
#include "muster/tensor/tensor.h"
#include "muster/train/estimator_spec.h"

namespace muster::inline v0_1 {

// The input of a head from a model: floating point [batch..., logits_dimension]. For MultiHead() it
// may be one tensor, whose last axis is divided in the order of its heads, or one tensor for each
// head by its name.
class MUSTER_EXPORT Logits {
 public:
  Logits(Tensor tensor) : tensor_(std::move(tensor)) {}  // NOLINT(google-explicit-constructor)
  Logits(std::map<std::string, Tensor> by_head)          // NOLINT(google-explicit-constructor)
      : by_head_(std::move(by_head)) {}

  // Whether there is one tensor for each head: by_head() then has them, else tensor().
  bool is_by_head() const { return !by_head_.empty(); }
  const Tensor& tensor() const { return tensor_; }
  const std::map<std::string, Tensor>& by_head() const { return by_head_; }
  // Returns "float32[8, 3]" or "{a: float32[8, 1], b: float32[8, 2]}", for messages.
  std::string describe() const;

 private:
  Tensor tensor_;
  std::map<std::string, Tensor> by_head_;
};

// Returns the loss of each example, not reduced, instead of a head's own. The head has checked
// `labels`, and replaced names by class numbers. The result is [batch..., 1]; for regression heads
// [batch..., label_dimension].
using HeadLossFn =
    std::function<Tensor(const Tensor& labels, const Tensor& logits, const Features& features)>;

// The results of a head for a batch with labels.
struct HeadScore {
  Tensor loss{};                            // scalar, reduced over the batch, with its graph
  std::map<std::string, Metric> metrics{};  // empty if not requested
  // For several heads: the loss of each by its name, before head_weights.
  std::map<std::string, Tensor> losses_of_heads{};
  // The weight of the loss compared with other batches; unset: the rows of the batch.
  std::optional<double> loss_weight{};
};

// The implementation of a kind of head. Derive from it to make your own head.
class MUSTER_EXPORT HeadRule {
 public:
  virtual ~HeadRule() = default;
  // "BinaryClassHead", for messages.
  virtual std::string kind() const = 0;
  // The suffix of metric and summary keys, after a slash; empty: none.
  virtual std::string name() const = 0;
  // The size of the last axis of the logits.
  virtual int64_t logits_dimension() const = 0;
  virtual losses::Reduction loss_reduction() const = 0;
  // The names of the classes, in the order of their numbers; empty without classes.
  virtual std::vector<std::string> classes() const { return {}; }
  // The feature that selects the steps of sequences that count; empty for a head of examples.
  virtual std::string sequence_mask_key() const { return {}; }
  virtual HeadScore score(const Features& features, const Labels& labels, const Logits& logits,
                          bool with_metrics) const = 0;
  virtual std::map<std::string, Tensor> predictions(const Logits& logits) const = 0;
  // Returns the signatures; empty: the predictions.
  virtual std::map<std::string, ExportOutput> export_outputs(const Logits& logits) const = 0;
};

// How Head::create_estimator_spec() trains.
struct HeadTraining {
  // Set exactly one of these two in Mode::kTrain. This optimizer updates the variables.
  std::optional<optim::Optimizer> optimizer{};
  // This function gets the loss, including the regularization_losses.
  std::function<optim::TrainOp(const Tensor& loss)> train_op_fn{};
  // Scalars that are added to the loss but not to the metric "average_loss". Do not add penalties
  // of the regularizers of layers and variables here: they are added to the loss automatically,
  // once for all replicas. So are these if losses are averaged; with Reduction::kSum each replica
  // adds its own.
  std::vector<Tensor> regularization_losses{};
};

class MUSTER_EXPORT Head {
 public:
  // Throws InvalidArgument for a null rule, and for one whose reduction is kNone.
  explicit Head(std::shared_ptr<const HeadRule> rule);

  const HeadRule& rule() const { return *rule_; }
  std::string name() const { return rule_->name(); }
  int64_t logits_dimension() const { return rule_->logits_dimension(); }
  losses::Reduction loss_reduction() const { return rule_->loss_reduction(); }

  // Returns the EstimatorSpec for the mode of `context`. Mode::kPredict ignores labels. Training
  // also reports the loss as "loss/<name>" if the head has a name, those of a MultiHead's heads as
  // "loss/<head>", and the sum of all penalties, if any, as "regularization_loss". Throws
  // InvalidArgument, with the name of the head, for
  //   - logits of another shape or dtype, labels that are missing, of another shape or outside
  //     of the allowed range, with the first such label;
  //   - weights that are missing, below 0 or of another shape;
  //   - in Mode::kTrain, both an optimizer and a train_op_fn, or neither.
  EstimatorSpec create_estimator_spec(ModelContext& context, const Features& features,
                                      const Labels& labels, const Logits& logits,
                                      const HeadTraining& training = {}) const;

  // The parts of create_estimator_spec(). loss() returns a scalar.
  Tensor loss(const Features& features, const Labels& labels, const Logits& logits,
              const std::vector<Tensor>& regularization_losses = {}) const;
  // Measures a batch: the metrics of create_estimator_spec() in Mode::kEval, without the penalties
  // of regularizers.
  std::map<std::string, Metric> metrics(
      const Features& features, const Labels& labels, const Logits& logits,
      const std::vector<Tensor>& regularization_losses = {}) const;
  // Returns the predictions by key.
  std::map<std::string, Tensor> predictions(const Logits& logits) const {
    return rule_->predictions(logits);
  }
  // Returns the signatures of an exported model.
  std::map<std::string, ExportOutput> export_outputs(const Logits& logits) const {
    return rule_->export_outputs(logits);
  }

  // Returns the names of the classes, in the order of their numbers: the label_vocabulary, or "0",
  // "1" ... Empty for heads without classes.
  std::vector<std::string> classes() const { return rule_->classes(); }
  // Returns the names for class numbers, in their shape: tf.estimator's predictions "classes" for
  // "class_ids", and "all_classes" for "all_class_ids". Predictions hold no texts, because LibTorch
  // has no string tensors. Throws InvalidArgument for an invalid class number, and for a head
  // without classes.
  Strings class_names(const Tensor& class_ids) const;

 private:
  // Returns loss and metrics, including the regularization_losses.
  HeadScore score(const Features& features, const Labels& labels, const Logits& logits,
                  const std::vector<Tensor>& regularization_losses, bool with_metrics) const;

  std::shared_ptr<const HeadRule> rule_;
};

}  // namespace muster::inline v0_1
