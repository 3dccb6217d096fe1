#include "muster/heads/binary_class_head.h"

#include "muster/heads/internal/arguments.h"
#include "muster/heads/internal/classes.h"
#include "muster/heads/internal/single_head.h"
#include "muster/losses/cross_entropy.h"
#include "muster/metrics/accuracy.h"
#include "muster/metrics/auc.h"
#include "muster/metrics/mean.h"
#include "muster/metrics/precision.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class BinaryClassRule : public internal::SingleHead {
 public:
  explicit BinaryClassRule(BinaryClassHeadOptions options)
      : SingleHead({.kind = "BinaryClassHead",
                    .name = std::move(options.name),
                    .weight_column = std::move(options.weight_column),
                    .loss_reduction = options.loss_reduction,
                    .loss_fn = std::move(options.loss_fn),
                    .logits_dimension = 1}),
        thresholds_(std::move(options.thresholds)),
        classes_(title(), 2, std::move(options.label_vocabulary)) {
    internal::check_thresholds(title(), thresholds_);
  }

  std::vector<std::string> classes() const override { return classes_.names(); }

 protected:
  Tensor labels_of(const Value& labels, const Tensor& logits) const override {
    const bool names = labels.is_strings();
    const Tensor numbers = names ? classes_.numbers_of(labels.strings()) : labels.tensor();
    const Tensor fitted = internal::fitted_labels(title(), numbers, logits, 1).to(at::kFloat);
    if (!names) internal::check_range(title(), "labels", fitted, 0, 1, "in [0, 1]");
    return fitted;
  }

  Tensor loss_of(const Checked& batch, losses::Reduction reduction) const override {
    return losses::binary_crossentropy(batch.labels, batch.logits,
                                       {.from_logits = true,
                                        .reduction = reduction,
                                        .sample_weight = weights_for(batch, reduction)});
  }

  void add_metrics(const Checked& batch, Metrics& all) const override {
    const auto& [labels, logits, weights] = batch;
    const Tensor logistic = logits.sigmoid();
    const Tensor class_ids = class_ids_of(logits);
    all["accuracy"] = metrics::accuracy(labels, class_ids, weights);
    all["precision"] = metrics::precision(labels, class_ids, weights);
    all["recall"] = metrics::recall(labels, class_ids, weights);
    all["prediction/mean"] = metrics::mean(logistic, weights);
    all["label/mean"] = metrics::mean(labels, weights);
    all["accuracy_baseline"] = metrics::accuracy_baseline(labels, weights);
    all["auc"] = metrics::auc(labels, logistic, weights);
    all["auc_precision_recall"] =
        metrics::auc(labels, logistic, weights, {.curve = metrics::Curve::kPr});
    internal::add_threshold_metrics(thresholds_, labels, logistic, weights, all);
  }

  Tensors predictions_of(const Tensor& logits) const override {
    const Tensor logistic = logits.sigmoid();
    // sigmoid(-x) is 1 - sigmoid(x), without its rounding.
    const Tensor probabilities = at::cat({(-logits).sigmoid(), logistic}, -1);
    return {{"logits", logits},
            {"logistic", logistic},
            {"probabilities", probabilities},
            {"class_ids", class_ids_of(logits)},
            {"all_class_ids", internal::all_class_ids(probabilities)}};
  }

  void add_outputs(const Tensors& predictions,
                   std::map<std::string, ExportOutput>& outputs) const override {
    const ExportOutput scores =
        ClassificationOutput(predictions.at("probabilities"), classes_.names());
    outputs.emplace(kServingDefault, scores);
    outputs.emplace("classification", scores);
    outputs.emplace("regression", RegressionOutput(predictions.at("logistic")));
  }

 private:
  static Tensor class_ids_of(const Tensor& logits) { return logits.gt(0).to(at::kLong); }

  std::vector<double> thresholds_;
  internal::Classes classes_;
};

}  // namespace

Head BinaryClassHead(BinaryClassHeadOptions options) {
  return Head(std::make_shared<const BinaryClassRule>(std::move(options)));
}

}  // namespace muster::inline v0_1
