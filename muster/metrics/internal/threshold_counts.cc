#include "muster/metrics/internal/threshold_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics::internal {
namespace {

constexpr double kAboveAll = 2, kBelowAll = -1;

// Finds how many thresholds a number in [0, 1] is above, without comparing it with all of them: a
// table of cells of [0, 1] says which few are possible. Compares in T, as Keras compares float32
// input in float32.
template <typename T>
class Ladder {
 public:
  explicit Ladder(const std::vector<double>& thresholds)
      : steps_(thresholds.begin(), thresholds.end()), cells_(std::bit_ceil(2 * steps_.size())) {
    for (size_t cell = 0; cell <= cells_; ++cell) {
      const T begin = static_cast<T>(cell) / static_cast<T>(cells_);
      below_.push_back(std::ranges::lower_bound(steps_, begin) - steps_.begin());
    }
    below_.push_back(static_cast<int64_t>(steps_.size()));
  }

  // The product is exact: there are 2^k cells.
  int64_t above(T number) const {
    const auto cell = static_cast<size_t>(number * static_cast<T>(cells_));
    const auto begin = steps_.begin();
    return std::lower_bound(begin + below_[cell], begin + below_[cell + 1], number) - begin;
  }

 private:
  std::vector<T> steps_;        // ascending
  size_t cells_;                // a power of 2
  std::vector<int64_t> below_;  // by cell: how many thresholds are below its begin
};

// The numbers of a batch, in row-major order on the CPU.
template <typename T>
struct Numbers {
  Tensor labels;
  Tensor predictions;
  Tensor weights;
  int64_t rows;
  int64_t outputs;
  const T* label;
  const T* prediction;
  const double* weight;  // nullptr if all are 1
};

template <typename T>
Numbers<T> numbers_of(const Labeled& given, const Tensor& weights,
                      const ThresholdCounting& counting) {
  const auto local = [](const Tensor& tensor, DType dtype) {
    return tensor.to(at::kCPU, dtype).contiguous();
  };
  const DType dtype = c10::CppTypeToScalarType<T>::value;
  Numbers<T> all;
  all.labels = local(given.labels, dtype);
  all.predictions = local(given.predictions, dtype);
  if (counting.from_logits.value_or(false)) all.predictions = all.predictions.sigmoid();
  if (weights.defined())
    all.weights = local(weights_of_each(weights, given.predictions.sizes().vec()), at::kDouble);
  const bool places =
      counting.class_id || counting.top_k || counting.by_label || !counting.label_weights.empty();
  all.outputs = places ? given.predictions.size(-1) : given.predictions.numel();
  all.rows = places ? given.predictions.numel() / all.outputs : 1;
  all.label = all.labels.template data_ptr<T>();
  all.prediction = all.predictions.template data_ptr<T>();
  all.weight = weights.defined() ? all.weights.template data_ptr<double>() : nullptr;
  return all;
}

template <typename T>
void check_prediction(const char* metric, const Labeled& given, const ThresholdCounting& counting,
                      T value, int64_t index) {
  if (value >= 0 && value <= 1) return;
  refuse_element(metric, "predictions", given.predictions, index, static_cast<double>(value),
                 "probabilities in [0, 1]",
                 counting.from_logits == false ? "for logits: {.from_logits = true}" : "");
}

// Marks the k largest of a row; of equal ones the first.
template <typename T>
void select_top(const T* row, int64_t k, std::vector<int64_t>& order, std::vector<char>& selected) {
  std::iota(order.begin(), order.end(), 0);
  std::ranges::nth_element(order, order.begin() + (k - 1), [row](int64_t a, int64_t b) {
    return row[a] != row[b] ? row[a] > row[b] : a < b;
  });
  std::ranges::fill(selected, 0);
  for (int64_t i = 0; i < k; ++i) selected[static_cast<size_t>(order[static_cast<size_t>(i)])] = 1;
}

template <typename T>
std::vector<double> counts_of(const char* metric, const Labeled& given, const Tensor& weights,
                              const ThresholdCounting& counting) {
  check_weights(metric, weights);
  const Numbers<T> all = numbers_of<T>(given, weights, counting);
  const Ladder<T> ladder(counting.thresholds);
  const auto buckets = static_cast<int64_t>(counting.thresholds.size()) + 1;
  const auto size = static_cast<size_t>(size_of_counts(counting, given.predictions.size(-1)));
  std::vector<double> counts =
      counting.ranges
          ? empty_ranges(counting.thresholds.size(), size / (4 * static_cast<size_t>(buckets)))
          : std::vector<double>(size);
  const int64_t block = (counting.ranges ? 4 : 2) * buckets;
  std::vector<int64_t> order(counting.top_k ? static_cast<size_t>(all.outputs) : 0);
  std::vector<char> selected(order.size(), 1);
  const int64_t first = counting.class_id.value_or(0);
  const int64_t end = counting.class_id ? first + 1 : all.outputs;
  for (int64_t row = 0; row < all.rows; ++row) {
    const int64_t begin = row * all.outputs;
    if (counting.top_k) {
      for (int64_t i = begin; i < begin + all.outputs; ++i)
        check_prediction(metric, given, counting, all.prediction[i], i);
      select_top(all.prediction + begin, *counting.top_k, order, selected);
    }
    for (int64_t place = first; place < end; ++place) {
      const int64_t i = begin + place;
      const auto label_index = static_cast<size_t>(place);
      check_prediction(metric, given, counting, all.prediction[i], i);
      if (!(all.label[i] >= 0 && all.label[i] <= 1)) {
        refuse_element(metric, "labels", given.labels, i, static_cast<double>(all.label[i]),
                       "in [0, 1]");
      }
      int64_t bucket = 0;
      if (!counting.top_k || selected[label_index] != 0) bucket = ladder.above(all.prediction[i]);
      if (counting.by_label) bucket += place * block;
      double weight = all.weight != nullptr ? all.weight[i] : 1;
      if (!counting.label_weights.empty() && !counting.by_label)
        weight *= counting.label_weights[label_index];
      if (counting.ranges && weight != 0) {
        const auto prediction = static_cast<double>(all.prediction[i]);
        double& least = counts[static_cast<size_t>(bucket + 2 * buckets)];
        double& largest = counts[static_cast<size_t>(bucket + 3 * buckets)];
        least = std::min(least, prediction);
        largest = std::max(largest, prediction);
      }
      if (all.label[i] == 0) bucket += buckets;
      counts[static_cast<size_t>(bucket)] += weight;
    }
  }
  return counts;
}

void check_places(const char* metric, const Labeled& given, const ThresholdCounting& counting) {
  const int64_t outputs = given.predictions.size(-1);
  const auto check = [&](const char* argument, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return;
    refuse(metric, argument, std::to_string(value),
           fmt::format("from {} to {} for predictions {}", least, most, describe(given.as_given)));
  };
  if (counting.class_id) check("class_id", *counting.class_id, 0, outputs - 1);
  if (counting.top_k) check("top_k", *counting.top_k, 1, outputs);
  const auto labels = static_cast<int64_t>(counting.label_weights.size());
  if (labels > 0) check("the number of label_weights", labels, outputs, outputs);
}

}  // namespace

int64_t size_of_counts(const ThresholdCounting& counting, int64_t outputs) {
  const auto thresholds = static_cast<int64_t>(counting.thresholds.size());
  return (counting.ranges ? 4 : 2) * (thresholds + 1) * (counting.by_label ? outputs : 1);
}

std::vector<double> empty_ranges(size_t thresholds, size_t histograms) {
  const size_t buckets = thresholds + 1;
  std::vector<double> state(4 * buckets * histograms);
  for (size_t i = 0; i < state.size(); ++i) {
    const size_t kind = i / buckets % 4;
    // Outside of all predictions, and finite, so that a state can be written as JSON.
    if (kind >= 2) state[i] = kind == 2 ? kAboveAll : kBelowAll;
  }
  return state;
}

void merge_ranges(std::span<double> state, std::span<const double> other, size_t thresholds) {
  const size_t buckets = thresholds + 1;
  for (size_t i = 0; i < state.size(); ++i) {
    const size_t kind = i / buckets % 4;
    state[i] = kind < 2    ? state[i] + other[i]
               : kind == 2 ? std::min(state[i], other[i])
                           : std::max(state[i], other[i]);
  }
}

double undecided_pairs(std::span<const double> histogram) {
  const size_t buckets = histogram.size() / 4;
  double positive = 0, negative = 0, undecided = 0;
  for (size_t b = 0; b < buckets; ++b) {
    positive += histogram[b];
    negative += histogram[buckets + b];
    // Equal predictions need no decision.
    if (histogram[2 * buckets + b] < histogram[3 * buckets + b])
      undecided += histogram[b] * histogram[buckets + b];
  }
  return ratio(undecided, positive * negative);
}

Metric count_above(const char* metric, std::shared_ptr<const MetricKind> kind, const Labeled& given,
                   const Tensor& weights, ThresholdCounting counting) {
  check_places(metric, given, counting);
  const Tensor fit =
      fit_weights(metric, weights, given.predictions.sizes().vec(), "predictions", given.as_given);
  return Metric::deferred(std::move(kind), [metric, given, fit, counting = std::move(counting)] {
    return compute_dtype(given.predictions) == at::kDouble
               ? counts_of<double>(metric, given, fit, counting)
               : counts_of<float>(metric, given, fit, counting);
  });
}

ConfusionCounts confusion_counts(std::span<const double> histogram) {
  const size_t buckets = histogram.size() / 2;
  const size_t thresholds = buckets - 1;
  const auto above = [&](std::span<const double> counts) {
    std::vector<double> sums(thresholds);
    double sum = 0;
    for (size_t t = thresholds; t-- > 0;) sums[t] = sum += counts[t + 1];
    return sums;
  };
  const auto not_above = [&](std::span<const double> counts) {
    std::vector<double> sums(thresholds);
    double sum = 0;
    for (size_t t = 0; t < thresholds; ++t) sums[t] = sum += counts[t];
    return sums;
  };
  const auto positive = histogram.first(buckets);
  const auto negative = histogram.last(buckets);
  return {.true_positives = above(positive),
          .false_positives = above(negative),
          .true_negatives = not_above(negative),
          .false_negatives = not_above(positive)};
}

double ratio(double a, double b) { return b == 0 ? 0 : a / b; }

std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& rest) {
  std::vector<double> all(a.size());
  for (size_t i = 0; i < a.size(); ++i) all[i] = ratio(a[i], a[i] + rest[i]);
  return all;
}

std::vector<double> even_thresholds(int64_t count, double first, double last) {
  std::vector<double> thresholds{first};
  for (int64_t i = 1; i < count - 1; ++i)
    thresholds.push_back(static_cast<double>(i) / static_cast<double>(count - 1));
  thresholds.push_back(last);
  return thresholds;
}

}  // namespace muster::inline v0_1::metrics::internal
