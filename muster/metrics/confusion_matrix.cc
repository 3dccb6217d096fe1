#include "muster/metrics/confusion_matrix.h"

#include <fmt/format.h>

#include "muster/metrics/internal/arguments.h"
#include "muster/metrics/internal/known_kinds.h"
#include "muster/metrics/internal/threshold_counts.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics {
namespace {

using Numbers = std::span<const double>;

// Adds one pair of a batch to a state.
using AddPair = void (*)(double* state, int64_t classes, int64_t label, int64_t prediction,
                         double weight);

// Makes a metric whose state `add` is called on for each label and prediction.
Metric of_pairs(const char* metric, std::shared_ptr<const MetricKind> kind, const Tensor& labels,
                const Tensor& predictions, int64_t classes, const Tensor& weights, AddPair add,
                std::optional<int64_t> ignored = {}) {
  const internal::Labeled given = internal::in_one_shape(
      metric, labels, predictions, "both are class numbers: predictions.argmax(-1)");
  const Tensor fit = internal::fit_weights(metric, weights, given.labels.sizes().vec(),
                                           "predictions", predictions);
  return Metric::deferred(kind, [=] {
    internal::check_weights(metric, fit);
    std::vector<double> state = kind->empty;
    const Tensor truth = internal::class_numbers(metric, "labels", given.labels, classes,
                                                 ignored ? &*ignored : nullptr);
    const Tensor said = internal::class_numbers(metric, "predictions", given.predictions, classes);
    Tensor each;
    if (fit.defined()) {
      each = internal::weights_of_each(fit, given.labels.sizes().vec())
                 .to(at::kCPU, at::kDouble)
                 .contiguous();
    }
    const int64_t* label = truth.data_ptr<int64_t>();
    const int64_t* prediction = said.data_ptr<int64_t>();
    const double* weight = each.defined() ? each.data_ptr<double>() : nullptr;
    for (int64_t i = 0; i < truth.numel(); ++i) {
      if (ignored && label[i] == *ignored) continue;
      add(state.data(), classes, label[i], prediction[i], weight != nullptr ? weight[i] : 1);
    }
    return state;
  });
}

// States of square matrices, [label][prediction].
void add_to_matrix(double* state, int64_t classes, int64_t label, int64_t prediction,
                   double weight) {
  state[label * classes + prediction] += weight;
}

std::string name_of_matrix(const char* metric, int64_t classes) {
  internal::check_at_least(metric, "num_classes", classes, 1);
  return fmt::format("{}({})", metric, classes);
}

double part_on_diagonal(Numbers matrix, size_t classes) {
  double right = 0, all = 0;
  for (size_t i = 0; i < matrix.size(); ++i) {
    all += matrix[i];
    if (i / classes == i % classes) right += matrix[i];
  }
  return internal::ratio(right, all);
}

double mean_of_seen(Numbers matrix, size_t classes) {
  double sum = 0, seen = 0;
  for (size_t c = 0; c < classes; ++c) {
    double union_of_both = -matrix[c * classes + c];
    for (size_t i = 0; i < classes; ++i)
      union_of_both += matrix[c * classes + i] + matrix[i * classes + c];
    sum += internal::ratio(matrix[c * classes + c], union_of_both);
    if (union_of_both != 0) ++seen;
  }
  return internal::ratio(sum, seen);
}

// States of what is right in each class, then of all that its rate is a part of.
MetricKind kind_of_rates(size_t classes, const char* undefined) {
  MetricKind kind;
  kind.better = Better::kHigher;
  kind.caution = [classes, undefined](Numbers state) {
    std::vector<size_t> missing;
    for (size_t c = 0; c < classes; ++c) {
      if (state[classes + c] == 0) missing.push_back(c);
    }
    if (missing.empty()) return std::string();
    return fmt::format("{} {}: 0 stands for a rate that is not defined, in the mean too", undefined,
                       internal::which_classes(missing));
  };
  kind.empty.resize(2 * classes);
  kind.merge = add_metric_states;
  kind.parts = [classes](Numbers state) {
    std::vector<double> rates;
    for (size_t c = 0; c < classes; ++c)
      rates.push_back(internal::ratio(state[c], state[classes + c]));
    return rates;
  };
  kind.result = [rates = kind.parts](Numbers state) {
    double sum = 0;
    const std::vector<double> all = rates(state);
    for (const double rate : all) sum += rate;
    return sum / static_cast<double>(all.size());
  };
  for (size_t c = 0; c < classes; ++c) kind.part_names.push_back(fmt::format("class_{}", c));
  return kind;
}

Metric rates_of_classes(const char* metric, const Tensor& labels, const Tensor& predictions,
                        int64_t num_classes, const Tensor& weights, const char* undefined,
                        AddPair add) {
  const auto kind = internal::known_kind(name_of_matrix(metric, num_classes), [&] {
    return kind_of_rates(static_cast<size_t>(num_classes), undefined);
  });
  return of_pairs(metric, kind, labels, predictions, num_classes, weights, add);
}

}  // namespace

Metric confusion_matrix(const Tensor& labels, const Tensor& predictions, int64_t num_classes,
                        const Tensor& weights) {
  constexpr const char* kName = "confusion_matrix";
  const auto kind = internal::known_kind(name_of_matrix(kName, num_classes), [&] {
    const auto n = static_cast<size_t>(num_classes);
    MetricKind made;
    made.empty.resize(n * n);
    made.merge = add_metric_states;
    made.result = [n](Numbers state) { return part_on_diagonal(state, n); };
    made.parts = [](Numbers state) { return std::vector<double>(state.begin(), state.end()); };
    for (size_t i = 0; i < n * n; ++i)
      made.part_names.push_back(fmt::format("label_{}/prediction_{}", i / n, i % n));
    return made;
  });
  return of_pairs(kName, kind, labels, predictions, num_classes, weights, add_to_matrix);
}

Metric mean_iou(const Tensor& labels, const Tensor& predictions, int64_t num_classes,
                const Tensor& weights, const MeanIouOptions& options) {
  constexpr const char* kName = "mean_iou";
  const auto kind = internal::known_kind(name_of_matrix(kName, num_classes), [&] {
    const auto n = static_cast<size_t>(num_classes);
    MetricKind made;
    made.empty.resize(n * n);
    made.merge = add_metric_states;
    made.result = [n](Numbers state) { return mean_of_seen(state, n); };
    made.better = Better::kHigher;
    made.caution = [](Numbers state) -> std::string {
      for (const double count : state) {
        if (count != 0) return "";
      }
      return "no label counts, so nothing was measured, and 0 stands for nothing";
    };
    return made;
  });
  return of_pairs(kName, kind, labels, predictions, num_classes, weights, add_to_matrix,
                  options.ignore_class);
}

Metric per_class_precision(const Tensor& labels, const Tensor& predictions, int64_t num_classes,
                           const Tensor& weights) {
  return rates_of_classes(
      "per_class_precision", labels, predictions, num_classes, weights, "nothing is predicted as",
      [](double* state, int64_t classes, int64_t label, int64_t prediction, double weight) {
        if (label == prediction) state[label] += weight;
        state[classes + prediction] += weight;
      });
}

Metric per_class_recall(const Tensor& labels, const Tensor& predictions, int64_t num_classes,
                        const Tensor& weights) {
  return rates_of_classes(
      "per_class_recall", labels, predictions, num_classes, weights, "there are no labels of",
      [](double* state, int64_t classes, int64_t label, int64_t prediction, double weight) {
        if (label == prediction) state[label] += weight;
        state[classes + label] += weight;
      });
}

}  // namespace muster::inline v0_1::metrics
