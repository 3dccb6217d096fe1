#include "muster/heads/multi_class_head.h"

#include <fmt/format.h>

#include "muster/heads/internal/arguments.h"
#include "muster/heads/internal/classes.h"
#include "muster/heads/internal/single_head.h"
#include "muster/losses/cross_entropy.h"
#include "muster/metrics/accuracy.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

constexpr const char* kMultiClass = "MultiClassHead";

int64_t checked_classes(const MultiClassHeadOptions& options) {
  if (options.n_classes <= 2) {
    internal::refuse(internal::title_of(kMultiClass, options.name), "n_classes",
                     std::to_string(options.n_classes), "more than 2",
                     "for two classes there is BinaryClassHead");
  }
  return options.n_classes;
}

class MultiClassRule : public internal::SingleHead {
 public:
  explicit MultiClassRule(MultiClassHeadOptions options)
      : SingleHead({.kind = kMultiClass,
                    .name = options.name,
                    .weight_column = std::move(options.weight_column),
                    .loss_reduction = options.loss_reduction,
                    .loss_fn = std::move(options.loss_fn),
                    .logits_dimension = checked_classes(options)}),
        classes_(title(), options.n_classes, std::move(options.label_vocabulary)) {}

  std::vector<std::string> classes() const override { return classes_.names(); }

 protected:
  Tensor labels_of(const Value& labels, const Tensor& logits) const override {
    const bool names = labels.is_strings();
    const Tensor numbers = names ? classes_.numbers_of(labels.strings()) : labels.tensor();
    if (!at::isIntegralType(numbers.scalar_type(), /*includeBool=*/false)) {
      internal::refuse(title(), "labels", describe(numbers),
                       "numbers of classes, of an integer dtype",
                       "of one-hot labels take argmax(-1); whole numbers become kInt64 in map()");
    }
    const Tensor fitted = internal::fitted_labels(title(), numbers, logits, 1);
    if (!names) {
      internal::check_range(title(), "labels", fitted, 0, static_cast<double>(classes_.count() - 1),
                            fmt::format("in [0, {})", classes_.count()));
    }
    return fitted.to(at::kLong);
  }

  Tensor loss_of(const Checked& batch, losses::Reduction reduction) const override {
    return losses::sparse_categorical_crossentropy(
        batch.labels, batch.logits,
        {.from_logits = true,
         .reduction = reduction,
         .sample_weight = weights_for(batch, reduction)});
  }

  void add_metrics(const Checked& batch, Metrics& all) const override {
    all["accuracy"] = metrics::accuracy(batch.labels, class_ids_of(batch.logits), batch.weights);
  }

  Tensors predictions_of(const Tensor& logits) const override {
    const Tensor probabilities = at::softmax(logits, -1);
    return {{"logits", logits},
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
  }

 private:
  static Tensor class_ids_of(const Tensor& logits) { return logits.argmax(-1, /*keepdim=*/true); }

  internal::Classes classes_;
};

}  // namespace

Head MultiClassHead(MultiClassHeadOptions options) {
  return Head(std::make_shared<const MultiClassRule>(std::move(options)));
}

}  // namespace muster::inline v0_1
