// Invariant of merging: however the rows of a batch are divided over batches and replicas, and in
// whatever order their metrics are merged, the result equals the result of all rows at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include "muster/metrics/internal/test_numbers.h"
#include "muster/metrics/metrics.h"

namespace muster::inline v0_1::metrics {
namespace {

using testing::numbers;
using testing::Row;
using testing::tensor_of;
using testing::whole_numbers;

constexpr int64_t kLawRows = 96;
constexpr int64_t kLawClasses = 4;

// All that metrics measure, with as few binary digits as make every sum exact in float64.
struct Batch {
  Tensor multi_hot;    // [rows, classes], 0 and 1
  Tensor one_hot;      // [rows, classes]
  Tensor classes;      // int64[rows]
  Tensor said;         // int64[rows]
  Tensor predictions;  // [rows, classes], in [0, 1)
  Tensor weights;      // [rows], whole numbers

  Batch rows(const Tensor& index) const {
    return {multi_hot.index_select(0, index),   one_hot.index_select(0, index),
            classes.index_select(0, index),     said.index_select(0, index),
            predictions.index_select(0, index), weights.index_select(0, index)};
  }
};

Batch whole_batch() {
  const Tensor classes = tensor_of(whole_numbers(41, kLawRows, kLawClasses), {kLawRows}, kInt64);
  return {tensor_of(whole_numbers(42, kLawRows * kLawClasses, 2), {kLawRows, kLawClasses}),
          at::one_hot(classes, kLawClasses),
          classes,
          tensor_of(whole_numbers(43, kLawRows, kLawClasses), {kLawRows}, kInt64),
          tensor_of(numbers(44, kLawRows * kLawClasses, 1024), {kLawRows, kLawClasses}),
          tensor_of(whole_numbers(45, kLawRows, 4), {kLawRows})};
}

struct MergeCase {
  const char* name{};
  // Whether every value has few binary digits, so that no sum is rounded: same bits.
  bool exact{};
  std::function<Metric(const Batch&)> measure{};
};

const MergeCase kMerged[] = {
    {"mean", true, [](auto& b) { return metrics::mean(b.predictions, b.weights); }},
    {"sum", true, [](auto& b) { return metrics::sum(b.predictions, b.weights); }},
    {"accuracy", true, [](auto& b) { return accuracy(b.classes, b.said, b.weights); }},
    {"accuracy_baseline", true,
     [](auto& b) { return accuracy_baseline(b.multi_hot.select(-1, 0), b.weights); }},
    {"binary_accuracy", true, [](auto& b) { return binary_accuracy(b.multi_hot, b.predictions); }},
    {"categorical_accuracy", true,
     [](auto& b) { return categorical_accuracy(b.one_hot, b.predictions, b.weights); }},
    {"sparse_categorical_accuracy", true,
     [](auto& b) { return sparse_categorical_accuracy(b.classes, b.predictions, b.weights); }},
    {"top_k", true,
     [](auto& b) {
       return top_k_categorical_accuracy(b.one_hot, b.predictions, b.weights, {.k = 2});
     }},
    {"sparse_top_k", true,
     [](auto& b) {
       return sparse_top_k_categorical_accuracy(b.classes, b.predictions, b.weights, {.k = 2});
     }},
    {"mean_absolute_error", true,
     [](auto& b) { return mean_absolute_error(b.multi_hot, b.predictions, b.weights); }},
    {"mean_squared_error", true,
     [](auto& b) { return mean_squared_error(b.multi_hot, b.predictions, b.weights); }},
    {"root_mean_squared_error", true,
     [](auto& b) { return root_mean_squared_error(b.multi_hot, b.predictions, b.weights); }},
    {"mean_relative_error", true,
     [](auto& b) {
       return mean_relative_error(b.multi_hot, b.predictions, torch::full({1}, 4), b.weights);
     }},
    {"mean_absolute_percentage_error", false,
     [](auto& b) {
       return mean_absolute_percentage_error(b.multi_hot + 1, b.predictions, b.weights);
     }},
    {"mean_squared_logarithmic_error", false,
     [](auto& b) { return mean_squared_logarithmic_error(b.multi_hot, b.predictions, b.weights); }},
    {"log_cosh", false, [](auto& b) { return log_cosh(b.multi_hot, b.predictions, b.weights); }},
    {"cosine_similarity", false,
     [](auto& b) { return metrics::cosine_similarity(b.one_hot, b.predictions, b.weights); }},
    {"binary_crossentropy", false,
     [](auto& b) { return binary_crossentropy(b.multi_hot, b.predictions, b.weights); }},
    {"categorical_crossentropy", false,
     [](auto& b) { return categorical_crossentropy(b.one_hot, b.predictions, b.weights); }},
    {"sparse_categorical_crossentropy", false,
     [](auto& b) { return sparse_categorical_crossentropy(b.classes, b.predictions, b.weights); }},
    {"kl_divergence", false,
     [](auto& b) { return kl_divergence(b.multi_hot, b.predictions, b.weights); }},
    {"poisson", false, [](auto& b) { return poisson(b.multi_hot, b.predictions, b.weights); }},
    {"hinge", true, [](auto& b) { return hinge(b.multi_hot, b.predictions, b.weights); }},
    {"squared_hinge", true,
     [](auto& b) { return squared_hinge(b.multi_hot, b.predictions, b.weights); }},
    {"categorical_hinge", true,
     [](auto& b) { return categorical_hinge(b.one_hot, b.predictions, b.weights); }},
    {"auc", true, [](auto& b) { return auc(b.multi_hot, b.predictions, b.weights); }},
    {"auc_pr", true,
     [](auto& b) { return auc(b.multi_hot, b.predictions, b.weights, {.curve = Curve::kPr}); }},
    {"auc_of_labels", true,
     [](auto& b) { return auc(b.multi_hot, b.predictions, b.weights, {.multi_label = true}); }},
    {"precision", true,
     [](auto& b) {
       return precision(b.multi_hot, b.predictions, b.weights, {.thresholds = {0.2, 0.7}});
     }},
    {"recall_at_top_2", true,
     [](auto& b) { return recall(b.one_hot, b.predictions, b.weights, {.top_k = 2}); }},
    {"true_positives", true,
     [](auto& b) { return true_positives(b.multi_hot, b.predictions, b.weights); }},
    {"precision_at_recall", true,
     [](auto& b) { return precision_at_recall(b.multi_hot, b.predictions, 0.5, b.weights); }},
    {"f1_score", true, [](auto& b) { return f1_score(b.one_hot, b.predictions, b.weights); }},
    {"confusion_matrix", true,
     [](auto& b) { return confusion_matrix(b.classes, b.said, kLawClasses, b.weights); }},
    {"mean_iou", true, [](auto& b) { return mean_iou(b.classes, b.said, kLawClasses, b.weights); }},
    {"per_class_precision", true,
     [](auto& b) { return per_class_precision(b.classes, b.said, kLawClasses, b.weights); }},
    {"r2_score", true,
     [](auto& b) {
       return r2_score(b.multi_hot, b.predictions, b.weights,
                       {.class_aggregation = ClassAggregation::kNone});
     }},
};

// Divides a random order of the rows at random places; some parts are empty. Then merges random
// neighbours until one metric is left.
Metric divided_and_merged(const MergeCase& law, const Batch& whole, uint64_t seed) {
  Random random(derive_key(seed, {id_of("division")}));
  const auto below = [&](size_t count) {
    return static_cast<size_t>(random.uniform() * static_cast<double>(count));
  };
  std::vector<int64_t> order(kLawRows);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[below(i)]);
  std::vector<size_t> cuts{0, order.size()};
  for (size_t cut = 0; cut < 1 + seed; ++cut) cuts.push_back(below(order.size() + 1));
  std::ranges::sort(cuts);
  std::vector<Metric> parts;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::vector<int64_t> rows(order.begin() + static_cast<int64_t>(cuts[i]),
                                    order.begin() + static_cast<int64_t>(cuts[i + 1]));
    parts.push_back(law.measure(whole.rows(torch::tensor(rows, kInt64))));
  }
  while (parts.size() > 1) {
    const size_t at = below(parts.size() - 1);
    parts[at].merge(parts[at + 1]);
    parts.erase(parts.begin() + static_cast<int64_t>(at) + 1);
  }
  return parts[0];
}

class MergeLaw : public ::testing::TestWithParam<MergeCase> {};

TEST_P(MergeLaw, AnyDivisionOfTheRowsMeasuresTheSame) {
  const MergeCase& law = GetParam();
  const Batch whole = whole_batch();
  const Metric at_once = law.measure(whole);
  EXPECT_NE(at_once.result(), law.measure(whole.rows(torch::arange(kLawRows / 2))).result())
      << "a metric of half the rows must differ, or the law says nothing";
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Metric merged = divided_and_merged(law, whole, seed);
    if (law.exact) {
      EXPECT_EQ(merged.state(), at_once.state());
      EXPECT_EQ(merged.result(), at_once.result());
      EXPECT_EQ(merged.parts(), at_once.parts());
    } else {
      EXPECT_NEAR(merged.result(), at_once.result(), 1e-13 * (1 + std::abs(at_once.result())));
    }
    // Only a name and a state are sent.
    EXPECT_EQ(at_once.with_state(merged.state()).result(), merged.result());
    EXPECT_EQ(merged.kind(), at_once.kind());
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, MergeLaw, ::testing::ValuesIn(kMerged),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace muster::inline v0_1::metrics
