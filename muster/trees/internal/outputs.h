// The meaning of logits: predictions and metrics, under tf.estimator's names. Thread safety: pure
// functions; a Measures object belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"
#include "muster/train/prediction.h"
#include "muster/train/results.h"
#include "muster/trees/ensemble.h"
#include "muster/trees/internal/objective.h"

namespace muster::inline v0_1::trees {

// float32 [rows, outputs] for the result of matrix_for(), float64 [rows, features].
Tensor logits_of(const Ensemble& ensemble, const Tensor& matrix);

// The predictions for a batch: kLogistic gives "logits" and "logistic" [rows, 1], "probabilities"
// [rows, 2], "class_ids" [rows, 1] and "all_class_ids" [rows, 2]; kSoftmax the same without
// "logistic", for each class; kSquared "predictions" [rows, 1].
Prediction::Outputs predictions_of(Loss loss, const Tensor& logits);
// Adds to `outputs` of the same batch: "bias" [rows, outputs] and "dfc" [rows, features, outputs],
// as Ensemble::explain() gives them.
void add_explanations(const Ensemble& ensemble, const Tensor& matrix, Prediction::Outputs* outputs);

// The metrics of a loss, over batches.
class Measures {
 public:
  explicit Measures(Loss loss) : loss_(loss) {}
  // Labels and weights are [rows]; no weights are all 1.
  void add(const Tensor& logits, const std::vector<float>& labels,
           const std::vector<float>& weights);
  // "loss" is the mean over batches, all others over examples.
  EvalResult results() const;
  int64_t batches() const { return batches_; }

 private:
  void merge(const std::string& name, const Metric& metric);

  const Loss loss_;
  std::map<std::string, Metric> metrics_;
  double loss_sum_ = 0;  // of the batches
  int64_t batches_ = 0;
};

}  // namespace muster::inline v0_1::trees
