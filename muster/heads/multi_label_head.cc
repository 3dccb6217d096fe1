#include "muster/heads/multi_label_head.h"

#include <fmt/format.h>

#include <set>

#include "muster/base/unknown_name.h"
#include "muster/data/example.h"
#include "muster/heads/internal/arguments.h"
#include "muster/heads/internal/classes.h"
#include "muster/heads/internal/single_head.h"
#include "muster/losses/cross_entropy.h"
#include "muster/metrics/auc.h"
#include "muster/metrics/mean.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

constexpr const char* kMultiLabel = "MultiLabelHead";

int64_t checked_labels(const MultiLabelHeadOptions& options) {
  if (options.n_classes < 2) {
    internal::refuse(internal::title_of(kMultiLabel, options.name), "n_classes",
                     std::to_string(options.n_classes), "at least 2");
  }
  return options.n_classes;
}

class MultiLabelRule : public internal::SingleHead {
 public:
  explicit MultiLabelRule(MultiLabelHeadOptions options)
      : SingleHead({.kind = kMultiLabel,
                    .name = options.name,
                    .weight_column = std::move(options.weight_column),
                    .loss_reduction = options.loss_reduction,
                    .loss_fn = std::move(options.loss_fn),
                    .logits_dimension = checked_labels(options)}),
        thresholds_(std::move(options.thresholds)),
        classes_(title(), options.n_classes, std::move(options.label_vocabulary)) {
    internal::check_thresholds(title(), thresholds_);
    for (const auto& chosen : options.classes_for_class_based_metrics)
      if (const int64_t id = class_of(chosen); !measured_.insert(id).second)
        refuse_choice(fmt::format("class {} twice", id), "different classes");
  }

  std::vector<std::string> classes() const override { return classes_.names(); }

 protected:
  // A VarLenFeature is lists, which come with their lengths.
  Value label_of(const Labels& labels, const Features& features) const override {
    const std::vector<std::string> keys = labels.keys();
    if (keys.size() != 2 || keys[1] != keys[0] + data::kRowLengths)
      return SingleHead::label_of(labels, features);
    const Value& lists = labels.value(keys[0]);
    return lists.is_strings() ? lists : hot_of_lists(lists.tensor(), labels[keys[1]]);
  }

  Tensor labels_of(const Value& labels, const Tensor& logits) const override {
    if (labels.is_strings()) return multi_hot(labels.strings(), logits);
    const Tensor fitted =
        internal::fitted_labels(title(), labels.tensor(), logits, classes_.count()).to(at::kFloat);
    internal::check_range(title(), "labels", fitted, 0, 1, "in [0, 1]");
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
    const Tensor probabilities = logits.sigmoid();
    const auto add_areas = [&all, &weights = weights](const std::string& end, const Tensor& truth,
                                                      const Tensor& predicted) {
      all["auc" + end] = metrics::auc(truth, predicted, weights);
      all["auc_precision_recall" + end] =
          metrics::auc(truth, predicted, weights, {.curve = metrics::Curve::kPr});
    };
    add_areas("", labels, probabilities);
    internal::add_threshold_metrics(thresholds_, labels, probabilities, weights, all);
    for (const int64_t id : measured_) {
      const std::string end = classes_.has_vocabulary()
                                  ? "/" + classes_.names()[static_cast<size_t>(id)]
                                  : fmt::format("/class{}", id);
      const Tensor predicted = probabilities.narrow(-1, id, 1);
      all["probability_mean" + end] = metrics::mean(predicted, weights);
      add_areas(end, labels.narrow(-1, id, 1), predicted);
    }
  }

  Tensors predictions_of(const Tensor& logits) const override {
    return {{"logits", logits}, {"probabilities", logits.sigmoid()}};
  }

  void add_outputs(const Tensors& predictions,
                   std::map<std::string, ExportOutput>& outputs) const override {
    const ExportOutput scores =
        ClassificationOutput(predictions.at("probabilities"), classes_.names());
    outputs.emplace(kServingDefault, scores);
    outputs.emplace("classification", scores);
  }

 private:
  [[noreturn]] void refuse_choice(const std::string& value, const std::string& allowed) const {
    internal::refuse(title(), "classes_for_class_based_metrics", value, allowed);
  }

  int64_t class_of(const std::variant<int64_t, std::string>& chosen) const {
    if (const auto* id = std::get_if<int64_t>(&chosen)) {
      if (*id < 0 || *id >= classes_.count())
        refuse_choice(fmt::format("class {}", *id), fmt::format("in [0, {})", classes_.count()));
      return *id;
    }
    const auto& name = std::get<std::string>(chosen);
    if (!classes_.has_vocabulary())
      refuse_choice(fmt::format("\"{}\"", name), "a number where there is no label_vocabulary");
    if (const auto id = classes_.find(name)) return *id;
    throw unknown_name(title() + ": classes_for_class_based_metrics: its label_vocabulary", "label",
                       name, classes_.names());
  }

  // Numbers of classes [batch, most], of which each row has `lengths`, as [batch, classes].
  Tensor hot_of_lists(const Tensor& lists, const Tensor& lengths) const {
    if (!at::isIntegralType(lists.scalar_type(), /*includeBool=*/false) || lists.dim() != 2 ||
        lengths.scalar_type() != kInt64 || lengths.sizes() != lists.sizes().slice(0, 1)) {
      internal::refuse(title(), "labels",
                       fmt::format("{} with the lengths {}", describe(lists), describe(lengths)),
                       "numbers of classes, integers [batch, most], and int64 [batch]",
                       "parse them with a VarLenFeature of kInt64, or give multi-hot ones");
    }
    const Tensor ids = lists.to(kInt64);
    const Tensor there = at::arange(ids.size(1), lengths.options()).lt(lengths.unsqueeze(1));
    internal::check_range(title(), "labels", ids.masked_fill(there.logical_not(), 0), 0,
                          static_cast<double>(classes_.count() - 1),
                          fmt::format("in [0, {})", classes_.count()));
    return hot_of((ids + 1).masked_fill(there.logical_not(), 0));
  }

  // Places [batch..., most] as [batch..., classes]: 0 means no class, n means class n - 1.
  Tensor hot_of(const Tensor& places) const {
    Shape shape = places.sizes().vec();
    shape.back() = classes_.count() + 1;
    return at::zeros(shape, at::device(places.device()).dtype(at::kFloat))
        .scatter(-1, places, 1.0)
        .narrow(-1, 1, classes_.count());
  }

  // Names [batch..., most], or [batch...] for one at most, as [batch..., classes].
  Tensor multi_hot(const Strings& labels, const Tensor& logits) const {
    Tensor ids = classes_.numbers_of(labels, /*empty_is_none=*/true);
    if (ids.dim() + 1 == logits.dim()) ids = ids.unsqueeze(-1);
    const auto rows = logits.sizes().slice(0, logits.dim() - 1);
    if (ids.dim() != logits.dim() || ids.sizes().slice(0, ids.dim() - 1) != rows) {
      internal::refuse(title(), "labels", Value(labels).describe(),
                       fmt::format("names [batch..., most] for logits {}", describe(logits)));
    }
    return hot_of(ids + 1).to(logits.device());
  }

  std::vector<double> thresholds_;
  internal::Classes classes_;
  std::set<int64_t> measured_;
};

}  // namespace

Head MultiLabelHead(MultiLabelHeadOptions options) {
  return Head(std::make_shared<const MultiLabelRule>(std::move(options)));
}

}  // namespace muster::inline v0_1
