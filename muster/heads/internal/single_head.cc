#include "muster/heads/internal/single_head.h"

#include <fmt/format.h>

#include "muster/heads/internal/arguments.h"
#include "muster/losses/sample_weight.h"
#include "muster/metrics/accuracy.h"
#include "muster/metrics/mean.h"
#include "muster/metrics/precision.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {

SingleHead::SingleHead(SingleHeadOptions options)
    : options_(std::move(options)), title_(title_of(options_.kind, options_.name)) {
  check_reduction(title_, options_.loss_reduction);
}

HeadScore SingleHead::score(const Features& features, const Labels& labels, const Logits& logits,
                            bool with_metrics) const {
  Checked batch;
  batch.logits = checked_logits(title_, logits, options_.logits_dimension);
  batch.labels = labels_of(label_of(labels, features), batch.logits);
  const bool per_logit = options_.losses_of_example == options_.logits_dimension;
  batch.weights = weights_of(title_, features, options_.weight_column, batch.logits, per_logit);
  HeadScore score;
  if (!with_metrics && !options_.loss_fn) {
    // Many losses are reduced in the operation that computes them.
    score.loss = loss_of(batch, options_.loss_reduction);
    return score;
  }
  const Tensor each = losses_of(batch, features);
  score.loss = losses::compute_weighted_loss(each, batch.weights, options_.loss_reduction);
  if (!with_metrics) return score;
  Metrics metrics{{"average_loss", metrics::mean(each, batch.weights)}};
  add_metrics({batch.labels, batch.logits.detach(), batch.weights}, metrics);
  if (options_.name.empty()) {
    score.metrics = std::move(metrics);
    return score;
  }
  for (auto& [key, metric] : metrics)
    score.metrics.emplace(key + "/" + options_.name, std::move(metric));
  return score;
}

Value SingleHead::label_of(const Labels& labels, const Features& features) const {
  return label_value(title_, labels, features);
}

Tensor SingleHead::losses_of(const Checked& batch, const Features& features) const {
  const Shape shape = shape_with(batch.logits, options_.losses_of_example);
  if (!options_.loss_fn) return loss_of(batch, losses::Reduction::kNone).reshape(shape);
  return internal::losses_of(title_, options_.loss_fn, batch.labels, batch.logits, features, shape);
}

std::map<std::string, Tensor> SingleHead::predictions(const Logits& logits) const {
  return predictions_of(checked_logits(title_, logits, options_.logits_dimension));
}

std::map<std::string, ExportOutput> SingleHead::export_outputs(const Logits& logits) const {
  const Tensors all = predictions(logits);
  std::map<std::string, ExportOutput> outputs{{"predict", PredictOutput(all)}};
  if (logits.tensor().dim() == 2) {
    add_outputs(all, outputs);
  } else {
    outputs.emplace(kServingDefault, outputs.at("predict"));
  }
  return outputs;
}

Tensor all_class_ids(const Tensor& probabilities) {
  Tensor rows = probabilities;
  // One of each row: the shape [batch, classes] without a number that a trace would keep.
  while (rows.dim() > 2) rows = rows.select(1, 0);
  return at::zeros_like(rows, rows.options().dtype(at::kLong)) +
         at::arange(probabilities.size(-1), rows.options().dtype(at::kLong));
}

void add_threshold_metrics(const std::vector<double>& thresholds, const Tensor& labels,
                           const Tensor& probabilities, const Tensor& weights,
                           std::map<std::string, Metric>& metrics) {
  for (const double threshold : thresholds) {
    const std::string end = fmt::format("/positive_threshold_{:g}", threshold);
    metrics["accuracy" + end] =
        metrics::binary_accuracy(labels, probabilities, weights, {.threshold = threshold});
    metrics["precision" + end] =
        metrics::precision(labels, probabilities, weights, {.thresholds = {threshold}});
    metrics["recall" + end] =
        metrics::recall(labels, probabilities, weights, {.thresholds = {threshold}});
  }
}

}  // namespace muster::inline v0_1::internal
