#include "muster/trees/internal/outputs.h"

#include <algorithm>
#include <utility>

#include "muster/metrics/accuracy.h"
#include "muster/metrics/auc.h"
#include "muster/metrics/mean.h"
#include "muster/metrics/precision.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::trees {
namespace {

Tensor as_tensor(const std::vector<float>& values) {
  Tensor made = torch::empty({static_cast<int64_t>(values.size())}, kFloat32);
  std::ranges::copy(values, made.data_ptr<float>());
  return made;
}

// A logit of exactly 0 is of class 0, as ties are of the lower class.
Tensor class_ids(Loss loss, const Tensor& logits) {
  return loss == Loss::kLogistic ? logits.gt(0).to(kInt64) : logits.argmax(1, /*keepdim=*/true);
}

// [rows]
Tensor losses_of(Loss loss, const Tensor& logits, const Tensor& labels) {
  if (loss == Loss::kSoftmax)
    return -torch::log_softmax(logits, 1).gather(1, labels.to(kInt64).unsqueeze(1)).squeeze(1);
  const Tensor logit = logits.select(1, 0);
  if (loss == Loss::kSquared) return (logit - labels).square();
  return logit.clamp_min(0) - logit * labels + torch::log1p(torch::exp(-logit.abs()));
}

}  // namespace

Tensor logits_of(const Ensemble& ensemble, const Tensor& matrix) {
  const int64_t rows = matrix.size(0), width = matrix.size(1);
  Tensor logits = torch::zeros({rows, ensemble.outputs}, kFloat64);
  const auto* in = matrix.data_ptr<double>();
  auto* out = logits.data_ptr<double>();
  for (int64_t r = 0; r < rows; ++r)
    ensemble.add_logits(in + r * width, out + r * ensemble.outputs);
  return logits.to(kFloat32);
}

Prediction::Outputs predictions_of(Loss loss, const Tensor& logits) {
  if (loss == Loss::kSquared) return {{"predictions", logits}};
  Prediction::Outputs outputs{{"logits", logits}, {"class_ids", class_ids(loss, logits)}};
  if (loss == Loss::kLogistic) {
    const Tensor logistic = logits.sigmoid();
    outputs["logistic"] = logistic;
    outputs["probabilities"] = torch::cat({1 - logistic, logistic}, 1);
  } else {
    outputs["probabilities"] = logits.softmax(1);
  }
  // Computed from the probabilities, so that a trace sees where the rows come from.
  const Tensor& probabilities = outputs["probabilities"];
  outputs["all_class_ids"] =
      torch::zeros_like(probabilities, probabilities.options().dtype(kInt64)) +
      torch::arange(probabilities.size(1), kInt64);
  return outputs;
}

void add_explanations(const Ensemble& ensemble, const Tensor& matrix,
                      Prediction::Outputs* outputs) {
  const int64_t rows = matrix.size(0), width = matrix.size(1);
  Tensor bias = torch::empty({rows, ensemble.outputs}, kFloat64);
  Tensor contributions = torch::empty({rows, width, ensemble.outputs}, kFloat64);
  for (int64_t r = 0; r < rows; ++r) {
    ensemble.explain(matrix.data_ptr<double>() + r * width,
                     bias.data_ptr<double>() + r * ensemble.outputs,
                     contributions.data_ptr<double>() + r * width * ensemble.outputs);
  }
  (*outputs)["bias"] = bias.to(kFloat32);
  (*outputs)["dfc"] = contributions.to(kFloat32);
}

void Measures::merge(const std::string& name, const Metric& metric) {
  const auto [at, added] = metrics_.try_emplace(name, metric);
  if (!added) at->second.merge(metric);
}

void Measures::add(const Tensor& logits, const std::vector<float>& labels,
                   const std::vector<float>& weights) {
  const Tensor label = as_tensor(labels);
  const Tensor weight = weights.empty() ? Tensor() : as_tensor(weights);
  const Tensor losses = losses_of(loss_, logits, label);
  ++batches_;
  loss_sum_ += (weight.defined() ? losses * weight : losses).mean().item<double>();
  merge("average_loss", metrics::mean(losses, weight));
  if (loss_ == Loss::kSquared) {
    merge("prediction/mean", metrics::mean(logits.select(1, 0), weight));
    merge("label/mean", metrics::mean(label, weight));
    return;
  }
  const Tensor ids = class_ids(loss_, logits).select(1, 0);
  merge("accuracy", metrics::accuracy(label, ids, weight));
  if (loss_ == Loss::kSoftmax) return;
  const Tensor logistic = logits.select(1, 0).sigmoid();
  const Tensor said = ids.to(kFloat32);
  merge("precision", metrics::precision(label, said, weight));
  merge("recall", metrics::recall(label, said, weight));
  merge("prediction/mean", metrics::mean(logistic, weight));
  merge("label/mean", metrics::mean(label, weight));
  merge("auc", metrics::auc(label, logistic, weight));
  merge("auc_precision_recall",
        metrics::auc(label, logistic, weight, {.curve = metrics::Curve::kPr}));
}

EvalResult Measures::results() const {
  EvalResult results{{"loss", loss_sum_ / static_cast<double>(std::max<int64_t>(1, batches_))}};
  for (const auto& [name, metric] : metrics_) results[name] = metric.result();
  if (loss_ == Loss::kLogistic) {
    const double mean = results.at("label/mean");
    results["accuracy_baseline"] = std::max(mean, 1 - mean);
  }
  return results;
}

}  // namespace muster::inline v0_1::trees
