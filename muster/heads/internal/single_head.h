// The common part of all heads except MultiHead: labels and weights are checked, losses weighted
// and reduced, and keys of metrics get the head's name. Thread safety: immutable.
#pragma once

#include <map>
#include <string>

#include "muster/features/weight_column.h"
#include "muster/heads/head.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Options that all of them have.
struct SingleHeadOptions {
  std::string kind{};  // "BinaryClassHead"
  std::string name{};
  WeightColumn weight_column{};
  losses::Reduction loss_reduction{};
  HeadLossFn loss_fn{};
  int64_t logits_dimension{};
  int64_t losses_of_example = 1;  // the last axis of the losses
};

class SingleHead : public HeadRule {
 public:
  // Throws InvalidArgument for a reduction that is none.
  explicit SingleHead(SingleHeadOptions options);

  std::string kind() const override { return options_.kind; }
  std::string name() const override { return options_.name; }
  int64_t logits_dimension() const override { return options_.logits_dimension; }
  losses::Reduction loss_reduction() const override { return options_.loss_reduction; }
  HeadScore score(const Features& features, const Labels& labels, const Logits& logits,
                  bool with_metrics) const final;
  std::map<std::string, Tensor> predictions(const Logits& logits) const final;
  std::map<std::string, ExportOutput> export_outputs(const Logits& logits) const final;

 protected:
  // A checked batch. Labels are as for a loss_fn, and weights [batch..., 1] or undefined.
  struct Checked {
    Tensor labels;
    Tensor logits;
    Tensor weights;
  };
  using Metrics = std::map<std::string, Metric>;
  using Tensors = std::map<std::string, Tensor>;

  // Returns the one value of labels. Throws InvalidArgument if there are none, or several.
  virtual Value label_of(const Labels& labels, const Features& features) const;
  // Returns labels that were checked, on the device of the logits.
  virtual Tensor labels_of(const Value& labels, const Tensor& logits) const = 0;
  // Returns the weighted loss, reduced; of kNone the loss of each example without its weight,
  // [batch...] or [batch..., losses_of_example].
  virtual Tensor loss_of(const Checked& batch, losses::Reduction reduction) const = 0;
  // Adds the metrics in addition to average_loss.
  virtual void add_metrics(const Checked& batch, Metrics& metrics) const = 0;
  virtual Tensors predictions_of(const Tensor& logits) const = 0;
  // Adds the outputs of logits [batch, n], in addition to "predict"; one is kServingDefault.
  virtual void add_outputs(const Tensors& predictions,
                           std::map<std::string, ExportOutput>& outputs) const = 0;

  // The beginning of errors.
  const std::string& title() const { return title_; }
  // The weights that a loss of that reduction takes.
  static Tensor weights_for(const Checked& batch, losses::Reduction reduction) {
    return reduction == losses::Reduction::kNone ? Tensor() : batch.weights;
  }

 private:
  // Returns the loss of each example, [batch..., losses_of_example].
  Tensor losses_of(const Checked& batch, const Features& features) const;

  SingleHeadOptions options_;
  std::string title_;
};

// Returns [batch, classes] of int64 with the numbers of the classes in each row, for predictions
// [batch..., classes]. It can be traced.
Tensor all_class_ids(const Tensor& probabilities);

// Adds accuracy, precision and recall at each threshold.
void add_threshold_metrics(const std::vector<double>& thresholds, const Tensor& labels,
                           const Tensor& probabilities, const Tensor& weights,
                           std::map<std::string, Metric>& metrics);

}  // namespace muster::inline v0_1::internal
