#include "muster/heads/regression_head.h"

#include <fmt/format.h>

#include "muster/heads/internal/arguments.h"
#include "muster/heads/internal/single_head.h"
#include "muster/losses/cross_entropy.h"
#include "muster/losses/poisson.h"
#include "muster/losses/regression.h"
#include "muster/metrics/mean.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using LinkFn = std::function<Tensor(const Tensor&)>;

// The loss of labels [batch..., n, 1] and such logits: one of Muster's, with these options.
using LossOfLabels = std::function<Tensor(const Tensor& labels, const Tensor& logits,
                                          losses::Reduction reduction, const Tensor& weights)>;

// The differences between the kinds of regression.
struct Regression {
  std::string kind{};
  std::string name{};
  WeightColumn weight_column;
  losses::Reduction loss_reduction;
  HeadLossFn loss_fn{};
  int64_t label_dimension = 1;
  // Where there is no loss_fn.
  LossOfLabels loss;
  LinkFn inverse_link_fn{};    // empty: predictions are the logits
  bool in_unit_range = false;  // labels are in [0, 1]
};

int64_t checked_dimension(const Regression& regression) {
  if (regression.label_dimension < 1) {
    internal::refuse(internal::title_of(regression.kind, regression.name), "label_dimension",
                     std::to_string(regression.label_dimension), "at least 1");
  }
  return regression.label_dimension;
}

class RegressionRule : public internal::SingleHead {
 public:
  explicit RegressionRule(Regression given)
      : SingleHead({.kind = given.kind,
                    .name = given.name,
                    .weight_column = given.weight_column,
                    .loss_reduction = given.loss_reduction,
                    .loss_fn = given.loss_fn,
                    .logits_dimension = checked_dimension(given),
                    .losses_of_example = given.label_dimension}),
        given_(std::move(given)) {}

 protected:
  Tensor labels_of(const Value& labels, const Tensor& logits) const override {
    if (labels.is_strings()) internal::refuse(title(), "labels", labels.describe(), "numbers");
    const Tensor fitted =
        internal::fitted_labels(title(), labels.tensor(), logits, given_.label_dimension);
    const Tensor numbers =
        fitted.to(fitted.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
    if (given_.in_unit_range) internal::check_range(title(), "labels", numbers, 0, 1, "in [0, 1]");
    return numbers;
  }

  Tensor loss_of(const Checked& batch, losses::Reduction reduction) const override {
    // Each label is an example of its own to the loss, which would give their mean.
    return given_.loss(batch.labels.unsqueeze(-1), batch.logits.unsqueeze(-1), reduction,
                       weights_for(batch, reduction));
  }

  void add_metrics(const Checked& batch, Metrics& all) const override {
    all["prediction/mean"] = metrics::mean(predicted(batch.logits), batch.weights);
    all["label/mean"] = metrics::mean(batch.labels, batch.weights);
  }

  Tensors predictions_of(const Tensor& logits) const override {
    Tensors all{{"predictions", predicted(logits)}};
    if (given_.inverse_link_fn) all.emplace("logits", logits);
    return all;
  }

  void add_outputs(const Tensors& predictions,
                   std::map<std::string, ExportOutput>& outputs) const override {
    const ExportOutput values = RegressionOutput(predictions.at("predictions"));
    outputs.emplace(kServingDefault, values);
    outputs.emplace("regression", values);
  }

 private:
  Tensor predicted(const Tensor& logits) const {
    if (!given_.inverse_link_fn) return logits;
    Tensor predictions = given_.inverse_link_fn(logits);
    if (!predictions.defined() || predictions.sizes() != logits.sizes()) {
      internal::refuse(title(), "what inverse_link_fn gave", describe(predictions),
                       "of the shape of the logits, " + describe(logits));
    }
    return predictions;
  }

  Regression given_;
};

Head make_head(Regression regression) {
  return Head(std::make_shared<const RegressionRule>(std::move(regression)));
}

}  // namespace

Head RegressionHead(RegressionHeadOptions options) {
  return make_head({.kind = "RegressionHead",
                    .name = std::move(options.name),
                    .weight_column = std::move(options.weight_column),
                    .loss_reduction = options.loss_reduction,
                    .loss_fn = std::move(options.loss_fn),
                    .label_dimension = options.label_dimension,
                    .loss =
                        [](const Tensor& labels, const Tensor& logits, losses::Reduction reduction,
                           const Tensor& weights) {
                          return losses::mean_squared_error(
                              labels, logits, {.reduction = reduction, .sample_weight = weights});
                        },
                    .inverse_link_fn = std::move(options.inverse_link_fn)});
}

Head PoissonRegressionHead(PoissonRegressionHeadOptions options) {
  return make_head(
      {.kind = "PoissonRegressionHead",
       .name = std::move(options.name),
       .weight_column = std::move(options.weight_column),
       .loss_reduction = options.loss_reduction,
       .label_dimension = options.label_dimension,
       .loss =
           [full = options.compute_full_loss](const Tensor& labels, const Tensor& logits,
                                              losses::Reduction reduction, const Tensor& weights) {
             return losses::log_poisson_loss(
                 labels, logits,
                 {.compute_full_loss = full, .reduction = reduction, .sample_weight = weights});
           },
       .inverse_link_fn = [](const Tensor& logits) { return logits.exp(); }});
}

Head LogisticRegressionHead(LogisticRegressionHeadOptions options) {
  return make_head(
      {.kind = "LogisticRegressionHead",
       .name = std::move(options.name),
       .weight_column = std::move(options.weight_column),
       .loss_reduction = options.loss_reduction,
       .loss =
           [](const Tensor& labels, const Tensor& logits, losses::Reduction reduction,
              const Tensor& weights) {
             return losses::binary_crossentropy(
                 labels, logits,
                 {.from_logits = true, .reduction = reduction, .sample_weight = weights});
           },
       .inverse_link_fn = [](const Tensor& logits) { return logits.sigmoid(); },
       .in_unit_range = true});
}

}  // namespace muster::inline v0_1
