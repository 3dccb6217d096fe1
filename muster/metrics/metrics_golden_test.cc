// The metrics of tf.estimator's heads, on the numbers of its own tests.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "muster/metrics/internal/test_numbers.h"
#include "muster/metrics/metrics.h"

namespace muster::inline v0_1::metrics {
namespace {

using testing::Row;
using testing::tensor_of;

enum class Head { kBinary, kMultiClass, kMultiLabel, kRegression };

struct GoldenCase {
  const char* id;
  Head head;
  Shape shape;  // of the logits
  Row logits;
  Row labels;   // of multi-class heads class numbers, else of the shape of the logits
  Row weights;  // one for each example; empty for 1
  std::map<std::string, double> expected;
  double tolerance;  // relative and absolute
};

// clang-format off
const GoldenCase kGolden[] = {
    {"lin_reg_eval_simple", Head::kRegression, {1, 1}, {13}, {10}, {},
     {{"average_loss", 9}, {"prediction/mean", 13}, {"label/mean", 10}}, 1e-6},
    {"lin_reg_eval_weights", Head::kRegression, {2, 1}, {13, 13}, {10, 10}, {1, 2},
     {{"average_loss", 9}, {"prediction/mean", 13}, {"label/mean", 10}}, 1e-6},
    {"lin_cls_eval_batch_binary", Head::kBinary, {2, 1}, {-1, 1}, {1, 0}, {},
     {{"average_loss", 1.3133}, {"accuracy", 0}, {"precision", 0}, {"recall", 0},
      {"prediction/mean", 0.5}, {"label/mean", 0.5}, {"accuracy_baseline", 0.5}, {"auc", 0},
      {"auc_precision_recall", 0.3068}, {"auc_precision_recall/v1", 0.25}}, 1e-3},
    {"lin_cls_eval_weights_multi", Head::kMultiClass, {2, 4}, {-35, -1, 33, 67, -35, 1, 37, 73},
     {1, 0}, {1, 2}, {{"average_loss", 94.66666666666667}, {"accuracy", 0}}, 1e-3},
    {"base_reg_eval_simple", Head::kRegression, {1, 1}, {13}, {10}, {},
     {{"average_loss", 9}, {"prediction/mean", 13}, {"label/mean", 10}}, 1e-6},
    {"base_cls_eval_batch", Head::kBinary, {2, 1}, {-1, -1}, {1, 0}, {},
     {{"average_loss", 0.8132499999999999}, {"accuracy", 0.5}, {"precision", 0}, {"recall", 0},
      {"prediction/mean", 0.2689}, {"label/mean", 0.5}, {"accuracy_baseline", 0.5}, {"auc", 0.5},
      {"auc_precision_recall", 0.5}, {"auc_precision_recall/v1", 0.75}}, 1e-3},
    {"dnn_cls_eval_binary_v1_sum", Head::kBinary, {2, 1}, {-2.08, -2.08}, {1, 0}, {},
     {{"average_loss", 1.157721}, {"accuracy", 0.5}}, 1e-6},
    {"head_bin_eval_reg", Head::kBinary, {2, 1}, {45, -41}, {1, 1}, {},
     {{"average_loss", 20.5}, {"accuracy", 0.5}, {"precision", 1}, {"recall", 0.5},
      {"prediction/mean", 0.5}, {"label/mean", 1}, {"accuracy_baseline", 1}, {"auc", 0},
      {"auc_precision_recall", 1}}, 1e-6},
    {"head_multi_eval", Head::kMultiClass, {2, 3}, {10, 0, 0, 0, 10, 0}, {1, 1}, {},
     {{"average_loss", 5}, {"accuracy", 0.5}}, 1e-2},
    {"head_multi_weighted_eval", Head::kMultiClass, {3, 3}, {10, 0, 0, 0, 10, 0, 0, 0, 10},
     {1, 2, 2}, {1, 2, 3}, {{"average_loss", 5}, {"accuracy", 0.5}}, 1e-2},
    {"head_reg_eval", Head::kRegression, {2, 1}, {45, 41}, {43, 44}, {}, {{"average_loss", 6.5}},
     1e-6},
    {"head_reg_weighted", Head::kRegression, {3, 1}, {45, 41, 44}, {35, 42, 45}, {1, 0.1, 1.5},
     {{"average_loss", 39.0769231}}, 1e-6},
    {"head_reg_multibatch_eval", Head::kRegression, {3, 1}, {45, 41, 44}, {35, 42, 45},
     {1, 0.1, 1.5},
     {{"average_loss", 39.076923}, {"prediction/mean", 44.26923076923077},
      {"label/mean", 41.03846153846154}}, 1e-6},
    {"head_ml_eval", Head::kMultiLabel, {2, 2}, {-1, 1, -1.5, 1.5}, {1, 0, 1, 1}, {},
     {{"average_loss", 1.1323374827504877}, {"auc", 0.3333}, {"auc_precision_recall", 0.7689}},
     1e-3},
    {"head_ml_per_class", Head::kMultiLabel, {2, 2}, {-1, 1, -1.5, 1.5}, {1, 0, 1, 1}, {},
     {{"probability_mean/class0", 0.22568347258817573}, {"auc/class0", 0},
      {"auc_precision_recall/class0", 1}, {"probability_mean/class1", 0.7743165274118242},
      {"auc/class1", 1}, {"auc_precision_recall/class1", 1}}, 1e-3},
    {"head_ml_multidim", Head::kMultiLabel, {2, 2, 3},
     {-10, 10, -10, 10, -10, 10, -12, 12, -12, 12, -12, 12},
     {1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 1, 1}, {1, 1.5, 2, 2.5},
     {{"average_loss", 5.666685714285714}, {"auc", 0.4977}, {"auc_precision_recall", 0.5461}},
     1e-3},
};
// clang-format on

void measure_binary(const Tensor& labels, const Tensor& logits, const Tensor& weights,
                    std::map<std::string, Metric>& all) {
  const Tensor probabilities = logits.sigmoid();
  const Tensor classes = logits.gt(0).to(kInt64);
  all["average_loss"] = binary_crossentropy(labels, logits, weights, {.from_logits = true});
  all["accuracy"] = accuracy(labels, classes, weights);
  all["precision"] = precision(labels, classes, weights);
  all["recall"] = recall(labels, classes, weights);
  all["prediction/mean"] = metrics::mean(probabilities, weights);
  all["label/mean"] = metrics::mean(labels, weights);
  all["accuracy_baseline"] = accuracy_baseline(labels, weights);
  all["auc"] = auc(labels, probabilities, weights);
  all["auc_precision_recall"] = auc(labels, probabilities, weights, {.curve = Curve::kPr});
  all["auc_precision_recall/v1"] =
      auc(labels, probabilities, weights,
          {.curve = Curve::kPr, .summation_method = SummationMethod::kTrapezoidal});
}

void measure_multi_label(const Tensor& labels, const Tensor& logits, const Tensor& weights,
                         std::map<std::string, Metric>& all) {
  const Tensor probabilities = logits.sigmoid();
  all["average_loss"] = binary_crossentropy(labels, logits, weights, {.from_logits = true});
  all["auc"] = auc(labels, logits, weights, {.from_logits = true});
  all["auc_precision_recall"] =
      auc(labels, logits, weights, {.curve = Curve::kPr, .from_logits = true});
  for (int64_t c = 0; c < logits.size(-1); ++c) {
    const std::string name = "/class" + std::to_string(c);
    const Tensor truth = labels.select(-1, c), p = probabilities.select(-1, c);
    all["probability_mean" + name] = metrics::mean(p, weights);
    all["auc" + name] = auc(truth, p, weights);
    all["auc_precision_recall" + name] = auc(truth, p, weights, {.curve = Curve::kPr});
  }
}

std::map<std::string, Metric> measured(Head head, const Tensor& labels, const Tensor& logits,
                                       const Tensor& weights) {
  std::map<std::string, Metric> all;
  if (head == Head::kBinary) measure_binary(labels, logits, weights, all);
  if (head == Head::kMultiLabel) measure_multi_label(labels, logits, weights, all);
  if (head == Head::kMultiClass) {
    all["average_loss"] =
        sparse_categorical_crossentropy(labels, logits, weights, {.from_logits = true});
    all["accuracy"] = sparse_categorical_accuracy(labels, logits, weights);
  }
  if (head == Head::kRegression) {
    all["average_loss"] = mean_squared_error(labels, logits, weights);
    all["prediction/mean"] = metrics::mean(logits, weights);
    all["label/mean"] = metrics::mean(labels, weights);
  }
  return all;
}

class GoldenMetrics : public ::testing::TestWithParam<GoldenCase> {};

// At once, and in batches of one row that are merged.
TEST_P(GoldenMetrics, AreThoseOfTheEstimator) {
  const GoldenCase& golden = GetParam();
  const Tensor logits = tensor_of(golden.logits, golden.shape);
  Shape batch = golden.shape;
  batch.pop_back();
  const bool classes = golden.head == Head::kMultiClass;
  const Tensor labels =
      tensor_of(golden.labels, classes ? batch : golden.shape, classes ? kInt64 : kFloat32);
  const Tensor weights = golden.weights.empty() ? Tensor() : tensor_of(golden.weights, batch);
  const auto whole = measured(golden.head, labels, logits, weights);
  std::map<std::string, Metric> merged;
  for (int64_t row = 0; row < logits.size(0); ++row) {
    const auto of_row = [row](const Tensor& all) {
      return all.defined() ? all.slice(0, row, row + 1) : all;
    };
    for (const auto& [name, metric] :
         measured(golden.head, of_row(labels), of_row(logits), of_row(weights))) {
      const auto [known, fresh] = merged.emplace(name, metric);
      if (!fresh) known->second.merge(metric);
    }
  }
  for (const auto& [name, expected] : golden.expected) {
    for (const auto& measurements : {whole, merged}) {
      const double result = measurements.at(name).result();
      EXPECT_NEAR(result, expected, golden.tolerance * (1 + std::abs(expected))) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenMetrics, ::testing::ValuesIn(kGolden),
                         [](const auto& info) { return std::string(info.param.id); });

// est_loss_metric_mean: the loss of an evaluation is the mean of the losses of its batches.
TEST(GoldenLoss, IsTheMeanOverBatches) {
  Metric loss = metrics::mean(tensor_of({2}, {}));
  for (const double next : {4, 6, 8, 10}) loss.merge(metrics::mean(tensor_of({next}, {})));
  EXPECT_EQ(loss.result(), 6.0);
}

}  // namespace
}  // namespace muster::inline v0_1::metrics
