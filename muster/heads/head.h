// A Head says what a model's last numbers, its logits, are for: how far they are from the labels,
// what is measured, what is predicted, and what an exported model offers. A model function computes
// logits and leaves the rest to it:
//
//   const Head head = BinaryClassHead({.weight_column = "weight"});
//   ...
//   return head.create_estimator_spec(context, features, labels, logits,
//                                     {.optimizer = optim::adam()});
//
// The heads are BinaryClassHead(), MultiClassHead(), MultiLabelHead(), RegressionHead(),
// PoissonRegressionHead(), LogisticRegressionHead() and MultiHead(), and SequentialHeadWrapper()
// makes one for each step of sequences; names, defaults and numbers are those of tf.estimator's.
// docs/heads.md has the table of what each gives.
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

// What a model computes for a head: floating [batch..., logits_dimension]. For MultiHead() that may
// be one tensor, whose last axis is divided in the order of its heads, or one by the name of each.
class MUSTER_EXPORT Logits {
 public:
  Logits(Tensor tensor) : tensor_(std::move(tensor)) {}  // NOLINT(google-explicit-constructor)
  Logits(std::map<std::string, Tensor> by_head)          // NOLINT(google-explicit-constructor)
      : by_head_(std::move(by_head)) {}

  // Whether there is one for each head. Then by_head() has them, else tensor().
  bool is_by_head() const { return !by_head_.empty(); }
  const Tensor& tensor() const { return tensor_; }
  const std::map<std::string, Tensor>& by_head() const { return by_head_; }
  // Gives "float32[8, 3]" or "{a: float32[8, 1], b: float32[8, 2]}", for messages.
  std::string describe() const;

 private:
  Tensor tensor_;
  std::map<std::string, Tensor> by_head_;
};

// Gives the loss of each example, not reduced, in place of a head's own. `labels` come as the head
// has checked them, class numbers for names among them. The result is [batch..., 1]; of regression
// heads [batch..., label_dimension].
using HeadLossFn =
    std::function<Tensor(const Tensor& labels, const Tensor& logits, const Features& features)>;

// What a head finds in a batch with labels.
struct HeadScore {
  Tensor loss{};                            // scalar, reduced over the batch, with its graph
  std::map<std::string, Metric> metrics{};  // empty where none were asked for
  // Of several heads: the loss of each by its name, before head_weights.
  std::map<std::string, Tensor> losses_of_heads{};
  // How much the loss weighs beside those of other batches; unset: the rows of the batch.
  std::optional<double> loss_weight{};
};

// How one kind of head works; what a Head asks. Whoever needs a head of their own derives from it.
class MUSTER_EXPORT HeadRule {
 public:
  virtual ~HeadRule() = default;
  // "BinaryClassHead", for messages.
  virtual std::string kind() const = 0;
  // What keys of metrics and summaries end with, behind a slash; empty for nothing.
  virtual std::string name() const = 0;
  // The size of the last axis of the logits.
  virtual int64_t logits_dimension() const = 0;
  virtual losses::Reduction loss_reduction() const = 0;
  // The names of the classes, in the order of their numbers; empty where there are no classes.
  virtual std::vector<std::string> classes() const { return {}; }
  // The feature that tells which steps of sequences count; empty for a head of examples.
  virtual std::string sequence_mask_key() const { return {}; }
  virtual HeadScore score(const Features& features, const Labels& labels, const Logits& logits,
                          bool with_metrics) const = 0;
  virtual std::map<std::string, Tensor> predictions(const Logits& logits) const = 0;
  // Empty: the predictions are what is offered.
  virtual std::map<std::string, ExportOutput> export_outputs(const Logits& logits) const = 0;
};

// How Head::create_estimator_spec() trains.
struct HeadTraining {
  // What updates the variables: one of the two, in Mode::kTrain.
  std::optional<optim::Optimizer> optimizer{};
  // Is given the loss with the regularization_losses in it.
  std::function<optim::TrainOp(const Tensor& loss)> train_op_fn{};
  // Scalars that are added to the loss and not to the metric "average_loss". Penalties of
  // regularizers of layers and variables are not given here: they join the loss by themselves, once
  // however many replicas there are. These do too where losses are averaged; with Reduction::kSum
  // each replica adds its own.
  std::vector<Tensor> regularization_losses{};
};

class MUSTER_EXPORT Head {
 public:
  // Throws InvalidArgument when there is no rule, and for one whose reduction is kNone.
  explicit Head(std::shared_ptr<const HeadRule> rule);

  const HeadRule& rule() const { return *rule_; }
  std::string name() const { return rule_->name(); }
  int64_t logits_dimension() const { return rule_->logits_dimension(); }
  losses::Reduction loss_reduction() const { return rule_->loss_reduction(); }

  // Gives what a model function returns in the mode of `context`. Labels are not looked at in
  // Mode::kPredict. Training shows the loss as "loss/<name>" too where the head has a name, those
  // of a MultiHead's heads as "loss/<head>", and the sum of all penalties, where there are some, as
  // "regularization_loss". Throws InvalidArgument, which names the head, for
  //   - logits of another shape or dtype, labels that are missing, of another shape or outside of
  //     what the head allows, with the first one that is;
  //   - weights that are missing, below 0 or of another shape;
  //   - in Mode::kTrain, an optimizer and a train_op_fn, or neither.
  EstimatorSpec create_estimator_spec(ModelContext& context, const Features& features,
                                      const Labels& labels, const Logits& logits,
                                      const HeadTraining& training = {}) const;

  // The parts of this. loss() gives a scalar.
  Tensor loss(const Features& features, const Labels& labels, const Logits& logits,
              const std::vector<Tensor>& regularization_losses = {}) const;
  // Measures a batch: what create_estimator_spec() gives in Mode::kEval, without the penalties of
  // regularizers.
  std::map<std::string, Metric> metrics(
      const Features& features, const Labels& labels, const Logits& logits,
      const std::vector<Tensor>& regularization_losses = {}) const;
  // What is predicted, by key.
  std::map<std::string, Tensor> predictions(const Logits& logits) const {
    return rule_->predictions(logits);
  }
  // What an exported model offers, by signature.
  std::map<std::string, ExportOutput> export_outputs(const Logits& logits) const {
    return rule_->export_outputs(logits);
  }

  // The names of the classes, in the order of their numbers: the label_vocabulary, or "0", "1" ...
  // Empty for heads without classes.
  std::vector<std::string> classes() const { return rule_->classes(); }
  // Gives the names for numbers of classes, in their shape: tf.estimator's predictions "classes"
  // for "class_ids", and "all_classes" for "all_class_ids". Predictions hold no texts, for LibTorch
  // has no such tensors. Throws InvalidArgument for a number that is no class, and for a head
  // without classes.
  Strings class_names(const Tensor& class_ids) const;

 private:
  // Gives loss and metrics, with the regularization_losses in them.
  HeadScore score(const Features& features, const Labels& labels, const Logits& logits,
                  const std::vector<Tensor>& regularization_losses, bool with_metrics) const;

  std::shared_ptr<const HeadRule> rule_;
};

}  // namespace muster::inline v0_1
