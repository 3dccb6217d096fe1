// Metrics that are weighted means over examples, against plain loops in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "muster/base/error_of.h"
#include "muster/metrics/internal/test_numbers.h"
#include "muster/metrics/metrics.h"

namespace muster::inline v0_1::metrics {
namespace {

using testing::numbers;
using testing::Row;
using testing::tensor_of;
using testing::whole_numbers;

constexpr int64_t kRows = 40;
constexpr int64_t kOutputs = 5;
constexpr double kSmall = 1e-7;

using Measure = std::function<Metric(const Tensor&, const Tensor&, const Tensor&)>;
using OfExample = std::function<double(const Row& labels, const Row& predictions)>;

enum class Numbers { kReal, kProbabilities, kSigns, kOneHot };

struct FormulaCase {
  const char* name{};
  Numbers numbers;
  Measure measure;
  OfExample of_example;
};

double mean_of(const Row& t, const Row& p, const std::function<double(double, double)>& each) {
  double sum = 0;
  for (size_t i = 0; i < t.size(); ++i) sum += each(t[i], p[i]);
  return sum / static_cast<double>(t.size());
}

size_t largest(const Row& row) {
  return static_cast<size_t>(std::ranges::max_element(row) - row.begin());
}

double clipped(double x, double most) { return std::min(std::max(x, kSmall), most); }

// Binary cross-entropy with 1 - 1e-7 as it is in float32.
double crossentropy_in_float(double t, double p) {
  const float least = 1e-7f, most = static_cast<float>(1 - 1e-7);
  const float q = std::min(std::max(static_cast<float>(p), least), most);
  return -(t * std::log(static_cast<double>(q + least)) +
           (1 - t) * std::log(static_cast<double>(1 - q + least)));
}

double log_of_softmax(const Row& logits, size_t at) {
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - logits[at]);
  return -std::log(sum);
}

const FormulaCase kFormulas[] = {
    {"mean_absolute_error", Numbers::kReal,
     [](auto& t, auto& p, auto& w) { return mean_absolute_error(t, p, w); },
     [](auto& t, auto& p) {
       return mean_of(t, p, [](double a, double b) { return std::abs(a - b); });
     }},
    {"mean_squared_error", Numbers::kReal,
     [](auto& t, auto& p, auto& w) { return mean_squared_error(t, p, w); },
     [](auto& t, auto& p) {
       return mean_of(t, p, [](double a, double b) { return (a - b) * (a - b); });
     }},
    {"mean_absolute_percentage_error", Numbers::kReal,
     [](auto& t, auto& p, auto& w) { return mean_absolute_percentage_error(t, p, w); },
     [](auto& t, auto& p) {
       return mean_of(t, p, [](double a, double b) {
         return 100 * std::abs(a - b) / std::max(std::abs(a), kSmall);
       });
     }},
    {"mean_squared_logarithmic_error", Numbers::kProbabilities,
     [](auto& t, auto& p, auto& w) { return mean_squared_logarithmic_error(t, p, w); },
     [](auto& t, auto& p) {
       return mean_of(t, p, [](double a, double b) {
         return std::pow(std::log(std::max(a, kSmall) + 1) - std::log(std::max(b, kSmall) + 1), 2);
       });
     }},
    {"log_cosh", Numbers::kReal, [](auto& t, auto& p, auto& w) { return log_cosh(t, p, w); },
     [](auto& t, auto& p) {
       return mean_of(t, p, [](double a, double b) { return std::log(std::cosh(b - a)); });
     }},
    {"cosine_similarity", Numbers::kReal,
     [](auto& t, auto& p, auto& w) { return metrics::cosine_similarity(t, p, w); },
     [](auto& t, auto& p) {
       double dot = 0, a = 0, b = 0;
       for (size_t i = 0; i < t.size(); ++i) dot += t[i] * p[i], a += t[i] * t[i], b += p[i] * p[i];
       return dot / std::sqrt(a * b);
     }},
    {"binary_crossentropy", Numbers::kProbabilities,
     [](auto& t, auto& p, auto& w) { return binary_crossentropy(t, p, w); },
     [](auto& t, auto& p) { return mean_of(t, p, crossentropy_in_float); }},
    {"smoothed_binary_crossentropy", Numbers::kProbabilities,
     [](auto& t, auto& p, auto& w) {
       return binary_crossentropy(t, p, w, {.label_smoothing = 0.2});
     },
     [](auto& t, auto& p) {
       return mean_of(t, p,
                      [](double a, double b) { return crossentropy_in_float(a * 0.8 + 0.1, b); });
     }},
    {"binary_crossentropy_of_logits", Numbers::kProbabilities,
     [](auto& t, auto& p, auto& w) {
       return binary_crossentropy(t, 8 * p.to(kFloat32) - 4, w, {.from_logits = true});
     },
     [](auto& t, auto& p) {
       return mean_of(t, p, [](double a, double b) {
         const double q = 1 / (1 + std::exp(4 - 8 * b));
         return -a * std::log(q) - (1 - a) * std::log(1 - q);
       });
     }},
    {"categorical_crossentropy", Numbers::kOneHot,
     [](auto& t, auto& p, auto& w) {
       return categorical_crossentropy(t, p, w, {.label_smoothing = 0.1});
     },
     [](auto& t, auto& p) {
       double sum = 0, all = 0;
       for (const double x : p) all += x;
       for (size_t i = 0; i < t.size(); ++i)
         sum -= (t[i] * 0.9 + 0.1 / kOutputs) * std::log(clipped(p[i] / all, 1 - kSmall));
       return sum;
     }},
    {"categorical_crossentropy_of_logits", Numbers::kOneHot,
     [](auto& t, auto& p, auto& w) {
       return categorical_crossentropy(t, p, w, {.from_logits = true});
     },
     [](auto& t, auto& p) { return -log_of_softmax(p, largest(t)); }},
    {"sparse_categorical_crossentropy", Numbers::kOneHot,
     [](auto& t, auto& p, auto& w) { return sparse_categorical_crossentropy(t.argmax(-1), p, w); },
     [](auto& t, auto& p) {
       double all = 0;
       for (const double x : p) all += clipped(x, 1 - kSmall);
       return -std::log(clipped(p[largest(t)], 1 - kSmall) / all);
     }},
    {"sparse_categorical_crossentropy_of_logits", Numbers::kOneHot,
     [](auto& t, auto& p, auto& w) {
       return sparse_categorical_crossentropy(t.argmax(-1, true), p, w, {.from_logits = true});
     },
     [](auto& t, auto& p) { return -log_of_softmax(p, largest(t)); }},
    {"kl_divergence", Numbers::kProbabilities,
     [](auto& t, auto& p, auto& w) { return kl_divergence(t, p, w); },
     [](auto& t, auto& p) {
       return static_cast<double>(kOutputs) * mean_of(t, p, [](double a, double b) {
                return clipped(a, 1) * std::log(clipped(a, 1) / clipped(b, 1));
              });
     }},
    {"poisson", Numbers::kProbabilities, [](auto& t, auto& p, auto& w) { return poisson(t, p, w); },
     [](auto& t, auto& p) {
       return mean_of(t, p, [](double a, double b) { return b - a * std::log(b + kSmall); });
     }},
    {"hinge", Numbers::kSigns, [](auto& t, auto& p, auto& w) { return hinge(t, p, w); },
     [](auto& t, auto& p) {
       return mean_of(t, p, [](double a, double b) { return std::max(1 - a * b, 0.0); });
     }},
    {"hinge_of_zeros_and_ones", Numbers::kSigns,
     [](auto& t, auto& p, auto& w) { return hinge((t + 1) / 2, p, w); },
     [](auto& t, auto& p) {
       return mean_of(t, p, [](double a, double b) { return std::max(1 - a * b, 0.0); });
     }},
    {"squared_hinge", Numbers::kSigns,
     [](auto& t, auto& p, auto& w) { return squared_hinge(t, p, w); },
     [](auto& t, auto& p) {
       return mean_of(t, p,
                      [](double a, double b) { return std::pow(std::max(1 - a * b, 0.0), 2); });
     }},
    {"categorical_hinge", Numbers::kOneHot,
     [](auto& t, auto& p, auto& w) { return categorical_hinge(t, p, w); },
     [](auto& t, auto& p) {
       double own = 0, other = -1e9;
       for (size_t i = 0; i < t.size(); ++i) {
         own += t[i] * p[i];
         other = std::max(other, (1 - t[i]) * p[i]);
       }
       return std::max(1 + other - own, 0.0);
     }},
    {"binary_accuracy", Numbers::kOneHot,
     [](auto& t, auto& p, auto& w) { return binary_accuracy(t, p, w, {.threshold = 0.75}); },
     [](auto& t, auto& p) {
       return mean_of(t, p, [](double a, double b) { return (b > 0.75) == (a == 1) ? 1.0 : 0.0; });
     }},
    {"categorical_accuracy", Numbers::kOneHot,
     [](auto& t, auto& p, auto& w) { return categorical_accuracy(t, p, w); },
     [](auto& t, auto& p) { return largest(t) == largest(p) ? 1.0 : 0.0; }},
    {"sparse_categorical_accuracy", Numbers::kOneHot,
     [](auto& t, auto& p, auto& w) { return sparse_categorical_accuracy(t.argmax(-1), p, w); },
     [](auto& t, auto& p) { return largest(t) == largest(p) ? 1.0 : 0.0; }},
    {"top_k_categorical_accuracy", Numbers::kOneHot,
     [](auto& t, auto& p, auto& w) { return top_k_categorical_accuracy(t, p, w, {.k = 2}); },
     [](auto& t, auto& p) {
       return std::ranges::count_if(p, [&](double x) { return x > p[largest(t)]; }) < 2 ? 1.0 : 0.0;
     }},
    {"sparse_top_k_categorical_accuracy", Numbers::kOneHot,
     [](auto& t, auto& p, auto& w) {
       return sparse_top_k_categorical_accuracy(t.argmax(-1, true), p, w, {.k = 3});
     },
     [](auto& t, auto& p) {
       return std::ranges::count_if(p, [&](double x) { return x > p[largest(t)]; }) < 3 ? 1.0 : 0.0;
     }},
};

struct Rows {
  Row labels, predictions;
};

// Some labels and predictions are 0 and 1.
Rows rows_of(Numbers kind) {
  constexpr int64_t kCount = kRows * kOutputs;
  Rows rows{numbers(21, kCount, 16), numbers(22, kCount)};
  rows.predictions[3] = 0;
  rows.predictions[7] = 1;
  if (kind == Numbers::kReal) {
    for (double& x : rows.labels) x = 4 * x - 2;
    for (double& x : rows.predictions) x = 4 * x - 2;
  } else if (kind == Numbers::kSigns) {
    rows.labels = whole_numbers(23, kCount, 2);
    for (double& x : rows.labels) x = 2 * x - 1;
    for (double& x : rows.predictions) x = 4 * x - 2;
  } else if (kind == Numbers::kOneHot) {
    const Row classes = whole_numbers(24, kRows, kOutputs);
    for (int64_t i = 0; i < kCount; ++i)
      rows.labels[static_cast<size_t>(i)] =
          classes[static_cast<size_t>(i / kOutputs)] == static_cast<double>(i % kOutputs) ? 1 : 0;
  }
  return rows;
}

class ExampleMetrics : public ::testing::TestWithParam<FormulaCase> {};

TEST_P(ExampleMetrics, AreTheirFormulas) {
  const FormulaCase& formula = GetParam();
  const Rows rows = rows_of(formula.numbers);
  const Row weights = numbers(25, kRows);
  double sum = 0, weighted = 0, all = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto part = [row](const Row& from) {
      return Row(from.begin() + row * kOutputs, from.begin() + (row + 1) * kOutputs);
    };
    const double value = formula.of_example(part(rows.labels), part(rows.predictions));
    const double weight = weights[static_cast<size_t>(row)];
    sum += value;
    weighted += weight * value;
    all += weight;
  }
  const Tensor w = tensor_of(weights, {kRows});
  const Tensor t = tensor_of(rows.labels, {kRows, kOutputs});
  const Tensor p = tensor_of(rows.predictions, {kRows, kOutputs});
  const auto near = [](const Metric& metric, double expected) {
    EXPECT_NEAR(metric.result(), expected, 2e-6 * (1 + std::abs(expected)));
  };
  near(formula.measure(t, p, {}), sum / kRows);
  near(formula.measure(t, p, w), weighted / all);
  near(formula.measure(t, p, w.unsqueeze(1)), weighted / all);
  near(formula.measure(t, p, torch::tensor(3.0)), sum / kRows);
  // More axes of examples, whose weights are repeated if one is missing.
  const Shape grid{4, kRows / 4, kOutputs};
  near(formula.measure(t.reshape(grid), p.reshape(grid), w.reshape({4, kRows / 4})),
       weighted / all);
  EXPECT_EQ(formula.measure(t.slice(0, 0, 0), p.slice(0, 0, 0), {}).state(), (Row{0, 0}));
  EXPECT_EQ(formula.measure(t, p, torch::zeros({kRows})).result(), 0.0);
  // Labels and predictions in bfloat16 are read as the same numbers in float32.
  const Tensor labels = t.to(kBFloat16), predictions = p.to(kBFloat16);
  EXPECT_EQ(formula.measure(labels, predictions, {}).state(),
            formula.measure(labels.to(kFloat32), predictions.to(kFloat32), {}).state());
  EXPECT_THROW(formula.measure(t.slice(0, 0, 3), p, {}), Error);
  EXPECT_THROW(formula.measure(t, p, torch::ones({3})), Error);
  EXPECT_THROW(formula.measure(Tensor(t), p, torch::ones({kRows, kOutputs, 2})), Error);
}

INSTANTIATE_TEST_SUITE_P(Cases, ExampleMetrics, ::testing::ValuesIn(kFormulas),
                         [](const auto& info) { return std::string(info.param.name); });

// Numbers of Keras's own tests and documents.
TEST(ExampleMetrics, AreKerasesNumbers) {
  const Tensor t = tensor_of({0, 1, 0, 0}, {2, 2}), p = tensor_of({0.6, 0.4, 0.4, 0.6}, {2, 2});
  const Tensor w = tensor_of({1, 0}, {2});
  EXPECT_NEAR(binary_crossentropy(t, p).result(), 0.81492424, 1e-6);
  EXPECT_NEAR(binary_crossentropy(t, p, w).result(), 0.9162905, 1e-6);
  EXPECT_NEAR(binary_crossentropy(tensor_of({1, 0, 1, 0}, {1, 4}), tensor_of({1, 1, 1, 0}, {1, 4}))
                  .result(),
              3.83331, 1e-4);
  const Tensor hot = tensor_of({0, 1, 0, 0, 0, 1}, {2, 3});
  const Tensor said = tensor_of({0.05, 0.95, 0, 0.1, 0.8, 0.1}, {2, 3});
  EXPECT_NEAR(categorical_crossentropy(hot, said).result(), 1.1769392, 1e-6);
  EXPECT_NEAR(categorical_crossentropy(hot, said, tensor_of({0.3, 0.7}, {2})).result(), 1.6271976,
              1e-6);
  EXPECT_NEAR(sparse_categorical_crossentropy(tensor_of({1, 2}, {2}, kInt64), said).result(),
              1.1769392, 1e-6);
  EXPECT_NEAR(kl_divergence(t, p).result(), 0.45814306, 1e-6);
  EXPECT_NEAR(poisson(tensor_of({0, 1, 0, 0}, {2, 2}), tensor_of({1, 1, 0, 0}, {2, 2})).result(),
              0.49999997, 1e-6);
  EXPECT_NEAR(log_cosh(t, tensor_of({1, 1, 0, 0}, {2, 2})).result(), 0.10844523, 1e-6);
  EXPECT_NEAR(hinge(t, p).result(), 1.3, 1e-6);
  EXPECT_NEAR(hinge(t, p, w).result(), 1.1, 1e-6);
  EXPECT_NEAR(squared_hinge(t, p).result(), 1.86, 1e-6);
  EXPECT_NEAR(categorical_hinge(t, p).result(), 1.4000001, 1e-6);
  EXPECT_NEAR(root_mean_squared_error(t, tensor_of({1, 1, 0, 0}, {2, 2})).result(), 0.5, 1e-12);
  EXPECT_NEAR(root_mean_squared_error(t, tensor_of({1, 1, 0, 0}, {2, 2}), w).result(),
              std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(mean_relative_error(tensor_of({1, 3, 2, 3}, {4}), tensor_of({2, 4, 6, 8}, {4}),
                                  tensor_of({1, 3, 2, 3}, {4}))
                  .result(),
              1.25, 1e-12);
  EXPECT_NEAR(
      metrics::cosine_similarity(tensor_of({0, 1, 1, 1}, {2, 2}), tensor_of({1, 0, 1, 1}, {2, 2}))
          .result(),
      0.5, 1e-12);
  EXPECT_NEAR(mean_squared_logarithmic_error(t, tensor_of({1, 1, 0, 0}, {2, 2})).result(),
              0.12011322, 1e-6);
  EXPECT_EQ(metrics::sum(tensor_of({1, 3, 5, 7}, {4})).result(), 16.0);
  EXPECT_EQ(metrics::sum(tensor_of({1, 3, 5, 7}, {4}), tensor_of({1, 1, 0, 0}, {4})).result(), 4.0);
  EXPECT_EQ(metrics::sum(tensor_of({1, 3, 5, 7}, {2, 2}), tensor_of({1, 10}, {2})).result(), 124.0);
}

TEST(ExampleMetrics, HaveTheirCorners) {
  const Tensor zero = tensor_of({0, 0}, {1, 2}), one = tensor_of({1, 1}, {1, 2});
  EXPECT_EQ(metrics::cosine_similarity(zero, one).result(), 0.0);
  EXPECT_EQ(mean_relative_error(zero, one, tensor_of({0, 4}, {2})).result(), 0.125);
  EXPECT_EQ(metrics::cosine_similarity(one, one, {}, {.axis = 0}).state(), (Row{2, 2}));
  // A prediction that is not above the threshold is 0; a threshold of 0.3 is compared in float32.
  EXPECT_EQ(binary_accuracy(one, tensor_of({0.3, 0.31}, {1, 2}), {}, {.threshold = 0.3}).result(),
            0.5);
  // Equal predictions are all among the first k; a NaN makes the example wrong.
  const Tensor tied = tensor_of({2, 2, 2, 1}, {1, 4}), label = tensor_of({2}, {1}, kInt64);
  EXPECT_EQ(sparse_top_k_categorical_accuracy(label, tied, {}, {.k = 1}).result(), 1.0);
  const Tensor infinite = tensor_of({-INFINITY, 0, 2, 1}, {1, 4});
  EXPECT_EQ(sparse_top_k_categorical_accuracy(label, infinite, {}, {.k = 1}).result(), 0.0);
  EXPECT_EQ(sparse_categorical_accuracy(label, tied).result(), 0.0) << "the first of equal ones";
  // Ignored examples count nothing.
  const Tensor labels = tensor_of({1, -1, 0}, {3}, kInt64), flat = torch::full({3, 2}, 0.5);
  EXPECT_NEAR(sparse_categorical_crossentropy(labels, flat, {}, {.ignore_class = -1}).state()[0],
              2 * std::log(2.0), 1e-6);
  EXPECT_EQ(
      sparse_categorical_crossentropy(labels, flat, tensor_of({2, 5, 1}, {3}), {.ignore_class = -1})
          .state()[1],
      3.0);
  // [batch] is one output of each example.
  EXPECT_EQ(
      mean_squared_error(tensor_of({1, 2}, {2}), tensor_of({3, 2}, {2, 1}), tensor_of({3, 1}, {2}))
          .state(),
      (Row{12, 4}));
  EXPECT_EQ(metrics::mean(tensor_of({1, 2, 3, 4}, {2, 2}), tensor_of({0, 1}, {1, 2})).result(), 3.0)
      << "a size of 1 stands for any";
}

// As in TensorFlow 2.15, which divides max(weight of label 1, weight of label 0), here 0, by the
// weight of all, and takes 0 / 0 for 0: tests/peers/golden/sdca/seed_20.json.
TEST(ExampleMetrics, WithoutWeightTheBaselineIsZero) {
  EXPECT_EQ(accuracy_baseline(torch::ones({3}), torch::zeros({3})).result(), 0);
}

TEST(ExampleMetrics, RefuseBadNumbersAndArguments) {
  const Tensor p = torch::full({3, 4}, 0.25);
  const Tensor wrong = tensor_of({0, 4, 1}, {3}, kInt64);
  for (const auto& [name, metric] : std::map<std::string, Metric>{
           {"sparse_categorical_accuracy", sparse_categorical_accuracy(wrong, p)},
           {"sparse_top_k_categorical_accuracy", sparse_top_k_categorical_accuracy(wrong, p)},
           {"sparse_categorical_crossentropy", sparse_categorical_crossentropy(wrong, p)}}) {
    EXPECT_EQ(message_of([&metric = metric] { (void)metric.result(); }),
              "metrics::" + name + ": labels[1] is 4; labels are class numbers from 0 to 3");
  }
  EXPECT_EQ(message_of([&] {
              (void)hinge(2 * torch::ones({3, 4}), p).result();
            }),
            "metrics::hinge: labels[0, 0] is 2; labels are -1 or 1, or 0 or 1");
  EXPECT_EQ(message_of([&] {
              (void)binary_accuracy(-torch::ones({3, 4}), p).result();
            }),
            "metrics::binary_accuracy: labels[0, 0] is -1; labels are in [0, 1]");
  EXPECT_EQ(message_of([] { (void)accuracy_baseline(2 * torch::ones({3})).result(); }),
            "metrics::accuracy_baseline: labels[0] is 2; labels are in [0, 1]");
  EXPECT_EQ(message_of([&] {
              (void)binary_crossentropy(2 * torch::ones({3, 4}), p).result();
            }),
            "metrics::binary_crossentropy: labels[0, 0] is 2; labels are in [0, 1]");
  EXPECT_EQ(message_of([&] { top_k_categorical_accuracy(p, p, {}, {.k = 0}); }),
            "metrics::top_k_categorical_accuracy: k is 0; it must be at least 1");
  EXPECT_EQ(message_of([&] { categorical_crossentropy(p, p, {}, {.label_smoothing = 1.5}); }),
            "metrics::categorical_crossentropy: label_smoothing is 1.5; it must be in [0, 1]");
  EXPECT_EQ(message_of([&] { metrics::cosine_similarity(p, p, {}, {.axis = 2}); }),
            "metrics::cosine_similarity: axis is 2; it must be in [-2, 2) for predictions "
            "float32[3, 4]");
  EXPECT_EQ(message_of([&] { mean_relative_error(p, p, torch::ones({3})); }),
            "metrics::mean_relative_error: normalizer float32[3] does not broadcast to predictions "
            "float32[3, 4]");
  EXPECT_EQ(message_of([&] { sparse_categorical_accuracy(p, p); }),
            "metrics::sparse_categorical_accuracy: labels float32[3, 4] do not fit predictions "
            "float32[3, 4]");
  EXPECT_EQ(message_of([&] {
              mean_squared_error(torch::zeros({3, 0}), torch::zeros({3, 0}));
            }),
            "metrics::mean_squared_error: predictions is float32[3, 0]; it must be at least one "
            "number for each example");
}

}  // namespace
}  // namespace muster::inline v0_1::metrics
