// Heads on the numbers of tf.estimator's own tests, and on the results of its reference's formulas
// in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/heads/binary_class_head.h"
#include "muster/heads/internal/test_batch.h"
#include "muster/heads/multi_class_head.h"
#include "muster/heads/multi_head.h"
#include "muster/heads/multi_label_head.h"
#include "muster/heads/regression_head.h"

namespace muster::inline v0_1 {
namespace {

using testing::features_with;
using testing::labels_of;
using testing::numbers;
using Row = std::vector<double>;

constexpr auto kAdds = losses::Reduction::kSum;

struct GoldenHead {
  const char* id{};
  Head head;
  Shape shape{};  // of the logits
  Row logits;
  Row labels;  // of multi-class heads class numbers, else of the shape of the logits
  Row weights;
  std::map<std::string, double> expected{};  // "loss", and metrics
  double tolerance{};                        // relative and absolute
  std::vector<double> regularization = {};
};

Head weighted_regression(int64_t dimension = 1) {
  return RegressionHead({.label_dimension = dimension, .weight_column = "w"});
}

// clang-format off
const std::vector<GoldenHead>& golden() {
  static const std::vector<GoldenHead> cases = {
    {"lin_reg_eval_simple", RegressionHead(), {1, 1}, {13}, {10}, {},
     {{"loss", 9}, {"average_loss", 9}, {"prediction/mean", 13}, {"label/mean", 10}}, 1e-6},
    {"lin_reg_eval_weights", weighted_regression(), {2, 1}, {13, 13}, {10, 10}, {1, 2},
     {{"loss", 13.5}, {"average_loss", 9}, {"prediction/mean", 13}, {"label/mean", 10}}, 1e-6},
    {"lin_reg_train_from_ckpt", RegressionHead(), {1, 1}, {175}, {5}, {}, {{"loss", 28900}}, 1e-6},
    {"lin_cls_train_scratch_n2", BinaryClassHead(), {1, 1}, {0}, {1}, {},
     {{"loss", 0.6931471805599453}}, 1e-6},
    {"lin_cls_train_ckpt_multi", MultiClassHead({.n_classes = 4}), {1, 4}, {-35, -1, 33, 67}, {1},
     {}, {{"loss", 68}}, 1e-3},
    {"lin_cls_train_multibatch_multi", MultiClassHead({.n_classes = 4}), {2, 4},
     {-35, -1, 33, 67, -35, 2, 39, 76}, {1, 0}, {}, {{"loss", 89.5}}, 1e-3},
    {"lin_cls_eval_batch_binary", BinaryClassHead(), {2, 1}, {-1, 1}, {1, 0}, {},
     {{"loss", 1.3133}, {"average_loss", 1.3133}, {"accuracy", 0}, {"precision", 0}, {"recall", 0},
      {"prediction/mean", 0.5}, {"label/mean", 0.5}, {"accuracy_baseline", 0.5}, {"auc", 0},
      {"auc_precision_recall", 0.3068}}, 1e-3},
    {"lin_cls_eval_weights_multi", MultiClassHead({.n_classes = 4, .weight_column = "w"}), {2, 4},
     {-35, -1, 33, 67, -35, 1, 37, 73}, {1, 0}, {1, 2},
     {{"loss", 142}, {"average_loss", 94.66666666666667}, {"accuracy", 0}}, 1e-3},
    {"base_cls_eval_batch", BinaryClassHead(), {2, 1}, {-1, -1}, {1, 0}, {},
     {{"loss", 0.8132499999999999}, {"average_loss", 0.8132499999999999}, {"accuracy", 0.5},
      {"precision", 0}, {"recall", 0}, {"prediction/mean", 0.2689}, {"label/mean", 0.5},
      {"accuracy_baseline", 0.5}, {"auc", 0.5}, {"auc_precision_recall", 0.5}}, 1e-3},
    {"dnn_cls_eval_binary_v1_sum", BinaryClassHead({.loss_reduction = kAdds}), {2, 1},
     {-2.08, -2.08}, {1, 0}, {},
     {{"loss", 2.315442}, {"average_loss", 1.157721}, {"accuracy", 0.5}}, 1e-6},
    {"dnn_cls_eval_weights", MultiClassHead({.n_classes = 3, .weight_column = "w"}), {2, 3},
     {-0.48, 0.48, 0.39, -0.48, 0.48, 0.39}, {1, 0}, {10, 100}, {{"loss", 93.734}}, 1e-5},
    {"dnn_reg_eval_3d_weights", weighted_regression(3), {1, 3}, {-0.48, 0.48, 0.39}, {1, -1, 0.5},
     {10}, {{"loss", 14.643}}, 1e-5},
    {"head_bin_eval_reg", BinaryClassHead(), {2, 1}, {45, -41}, {1, 1}, {},
     {{"average_loss", 20.5}, {"accuracy", 0.5}, {"precision", 1}, {"recall", 0.5},
      {"prediction/mean", 0.5}, {"label/mean", 1}, {"accuracy_baseline", 1}, {"auc", 0},
      {"auc_precision_recall", 1}, {"loss", 22.5}, {"regularization_loss", 2}}, 1e-6, {1.5, 0.5}},
    {"head_bin_train_1d_weights", BinaryClassHead({.weight_column = "w"}), {3, 1}, {45, -41, 44},
     {1, 1, 0}, {1, 0.1, 1.5}, {{"loss", 23.366666667}}, 1e-6},
    {"head_multi_eval", MultiClassHead({.n_classes = 3}), {2, 3}, {10, 0, 0, 0, 10, 0}, {1, 1}, {},
     {{"loss", 5}, {"average_loss", 5}, {"accuracy", 0.5}}, 1e-2},
    {"head_multi_weighted_eval", MultiClassHead({.n_classes = 3, .weight_column = "w"}), {3, 3},
     {10, 0, 0, 0, 10, 0, 0, 0, 10}, {1, 2, 2}, {1, 2, 3},
     {{"loss", 10}, {"average_loss", 5}, {"accuracy", 0.5}}, 1e-2},
    {"head_reg_eval", RegressionHead(), {2, 1}, {45, 41}, {43, 44}, {},
     {{"loss", 6.5}, {"average_loss", 6.5}}, 1e-6},
    {"head_reg_weighted", weighted_regression(), {3, 1}, {45, 41, 44}, {35, 42, 45}, {1, 0.1, 1.5},
     {{"loss", 33.8666667}, {"average_loss", 39.0769231},
      {"prediction/mean", 44.26923076923077}, {"label/mean", 41.03846153846154}}, 1e-6},
    {"head_ml_eval", MultiLabelHead({.n_classes = 2}), {2, 2}, {-1, 1, -1.5, 1.5}, {1, 0, 1, 1}, {},
     {{"loss", 1.1323374827504877}, {"average_loss", 1.1323374827504877}, {"auc", 0.3333},
      {"auc_precision_recall", 0.7689}}, 1e-3},
    {"head_ml_per_class",
     MultiLabelHead({.n_classes = 2, .classes_for_class_based_metrics = {0, 1}}), {2, 2},
     {-1, 1, -1.5, 1.5}, {1, 0, 1, 1}, {},
     {{"probability_mean/class0", 0.22568347258817573}, {"auc/class0", 0},
      {"auc_precision_recall/class0", 1}, {"probability_mean/class1", 0.7743165274118242},
      {"auc/class1", 1}, {"auc_precision_recall/class1", 1}}, 1e-3},
    {"head_ml_multidim", MultiLabelHead({.n_classes = 3, .weight_column = "w"}), {2, 2, 3},
     {-10, 10, -10, 10, -10, 10, -12, 12, -12, 12, -12, 12},
     {1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 1, 1}, {1, 1.5, 2, 2.5},
     {{"loss", 9.9167}, {"average_loss", 5.666685714285714}, {"auc", 0.4977},
      {"auc_precision_recall", 0.5461}}, 1e-3},
  };
  return cases;
}

// Computed apart from Muster: cross-entropies as max(x, 0) - x z + log(1 + e^-|x|) and log-sum-exp,
// weighted means, and areas over the 200 thresholds -1e-7, k / 199, 1 + 1e-7, of which the curve of
// precision is interpolated.
const std::vector<GoldenHead>& computed() {
  static const std::vector<GoldenHead> cases = {
    {"binary_weighted", BinaryClassHead({.weight_column = "w"}), {3, 1}, {45, -41, 44}, {1, 1, 0},
     {1, 0.1, 1.5},
     {{"loss", 23.36666667}, {"average_loss", 26.96153846}, {"accuracy", 0.3846153846},
      {"precision", 0.4}, {"recall", 0.9090909091}, {"prediction/mean", 0.9615384615},
      {"label/mean", 0.4230769231}, {"accuracy_baseline", 0.5769230769}, {"auc", 0.4545454545},
      {"auc_precision_recall", 0.4010626639}}, 1e-5},
    {"binary_weighted_sum", BinaryClassHead({.weight_column = "w", .loss_reduction = kAdds}),
     {3, 1}, {45, -41, 44}, {1, 1, 0}, {1, 0.1, 1.5},
     {{"loss", 70.1}, {"average_loss", 26.96153846}}, 1e-5},
    {"binary_thresholds", BinaryClassHead({.thresholds = {0.25, 0.5, 0.75}}), {2, 1}, {-1, 1},
     {1, 1}, {},
     {{"loss", 0.8132616875}, {"average_loss", 0.8132616875}, {"accuracy", 0.5}, {"precision", 1},
      {"recall", 0.5}, {"prediction/mean", 0.5}, {"label/mean", 1}, {"accuracy_baseline", 1},
      {"auc", 0}, {"auc_precision_recall", 1}, {"accuracy/positive_threshold_0.25", 1},
      {"precision/positive_threshold_0.25", 1}, {"recall/positive_threshold_0.25", 1},
      {"accuracy/positive_threshold_0.5", 0.5}, {"precision/positive_threshold_0.5", 1},
      {"recall/positive_threshold_0.5", 0.5}, {"accuracy/positive_threshold_0.75", 0},
      {"precision/positive_threshold_0.75", 0}, {"recall/positive_threshold_0.75", 0}}, 1e-5},
    {"binary_soft", BinaryClassHead(), {2, 1}, {0.5, -0.3}, {0.8, 0.4}, {},
     {{"loss", 0.6242161143}, {"average_loss", 0.6242161143}, {"prediction/mean", 0.5240084057},
      {"label/mean", 0.6}, {"accuracy", 0}, {"precision", 1}, {"recall", 0.5},
      {"accuracy_baseline", 0.6}}, 1e-5},
    {"binary_two_axes", BinaryClassHead({.weight_column = "w"}), {2, 2, 1}, {10, -10, 12, -12},
     {0, 0, 1, 1}, {1, 1.5, 2, 2.5},
     {{"loss", 10.00003529}, {"average_loss", 5.714305878}, {"accuracy", 0.5},
      {"precision", 0.6666666667}, {"recall", 0.4444444444}, {"prediction/mean", 0.4285751101},
      {"label/mean", 0.6428571429}, {"accuracy_baseline", 0.6428571429}, {"auc", 0.5222222222},
      {"auc_precision_recall", 0.6582285508}}, 1e-5},
    {"binary_no_positive", BinaryClassHead(), {2, 1}, {1, 1}, {0, 0}, {},
     {{"loss", 1.313261688}, {"average_loss", 1.313261688}, {"accuracy", 0}, {"precision", 0},
      {"recall", 0}, {"prediction/mean", 0.7310585786}, {"label/mean", 0}, {"accuracy_baseline", 1},
      {"auc", 0}, {"auc_precision_recall", 0}}, 1e-5},
    {"binary_no_negative", BinaryClassHead(), {2, 1}, {1, -1}, {1, 1}, {},
     {{"loss", 0.8132616875}, {"average_loss", 0.8132616875}, {"accuracy", 0.5}, {"precision", 1},
      {"recall", 0.5}, {"prediction/mean", 0.5}, {"label/mean", 1}, {"accuracy_baseline", 1},
      {"auc", 0}, {"auc_precision_recall", 1}}, 1e-5},
    {"binary_ties", BinaryClassHead({.thresholds = {0.5}}), {3, 1}, {0, 0, 2}, {1, 0, 1}, {},
     {{"loss", 0.5044074574}, {"average_loss", 0.5044074574}, {"accuracy", 0.6666666667},
      {"precision", 1}, {"recall", 0.5}, {"prediction/mean", 0.6269323593},
      {"label/mean", 0.6666666667}, {"accuracy_baseline", 0.6666666667}, {"auc", 0.75},
      {"auc_precision_recall", 0.8873265361}, {"accuracy/positive_threshold_0.5", 0.6666666667},
      {"precision/positive_threshold_0.5", 1}, {"recall/positive_threshold_0.5", 0.5}}, 1e-5},
    {"binary_many", BinaryClassHead({.weight_column = "w", .thresholds = {0.1, 0.9}}), {12, 1},
     {3.58, 0.87, 0.19, -3.73, -0.55, -0.71, -0.17, -1.25, -0.09, -0.95, -2.63, 1.77},
     {0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 0, 0}, {0.9, 0.7, 1.2, 2.8, 2.9, 2, 2.7, 2.5, 1.1, 0.3, 2, 1.7},
     {{"loss", 1.448188077}, {"average_loss", 0.8354931212}, {"accuracy", 0.4086538462},
      {"precision", 0.2666666667}, {"recall", 0.1176470588}, {"prediction/mean", 0.37499061},
      {"label/mean", 0.4903846154}, {"accuracy_baseline", 0.5096153846}, {"auc", 0.6886792453},
      {"auc_precision_recall", 0.544222371}, {"accuracy/positive_threshold_0.1", 0.7211538462},
      {"precision/positive_threshold_0.1", 0.6375}, {"recall/positive_threshold_0.1", 1},
      {"accuracy/positive_threshold_0.9", 0.4663461538}, {"precision/positive_threshold_0.9", 0},
      {"recall/positive_threshold_0.9", 0}}, 1e-5},
    {"multi_two_axes", MultiClassHead({.n_classes = 3, .weight_column = "w"}), {2, 2, 3},
     {10, 0, 0, 12, 0, 0, 0, 10, 0, 0, 15, 0}, {0, 1, 1, 2}, {1, 1.5, 2, 2.5},
     {{"loss", 13.87507309}, {"average_loss", 7.928613193}, {"accuracy", 0.4285714286}}, 1e-5},
    {"multi_sum", MultiClassHead({.n_classes = 4, .weight_column = "w", .loss_reduction = kAdds}),
     {5, 4}, {-1.24, -0.63, -0.8, -2.42, -0.92, -1.02, 1.12, -0.13, -1.62, 0.65, -0.36, -1.74, -0.6,
     -0.59, -0.87, 0.03, -2.25, -0.27, 1.01, 0.85}, {0, 3, 1, 1, 2}, {1, 0, 2, 0.5, 3},
     {{"loss", 5.52169545}, {"average_loss", 0.8494916077}, {"accuracy", 0.7692307692}}, 1e-5},
    {"regression_two_axes", RegressionHead({.label_dimension = 3, .weight_column = "w"}),
     {2, 2, 3}, {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32},
     {1, 2, 3, 12, 13, 14, 23, 24, 25, 34, 35, 36}, {1, 1.5, 2, 2.5},
     {{"loss", 16.25}, {"average_loss", 9.285714286}, {"prediction/mean", 19.57142857},
      {"label/mean", 22.42857143}}, 1e-5},
    {"regression_sum", RegressionHead({.label_dimension = 2, .weight_column = "w", .loss_reduction
     = kAdds}), {2, 2}, {45, 41, 44, 3}, {35, 42, 45, 1}, {2, 0.5},
     {{"loss", 204.5}, {"average_loss", 40.9}, {"prediction/mean", 39.1}, {"label/mean", 35.4}},
      1e-5},
    {"poisson", PoissonRegressionHead({.weight_column = "w"}), {4, 1}, {0, -1, 1, 0.5},
     {1, 2, 0, 1.5}, {1, 2, 0.5, 3},
     {{"loss", 2.946070707}, {"average_loss", 1.812966589}, {"prediction/mean", 1.237086709},
      {"label/mean", 1.461538462}}, 1e-5},
    {"poisson_short", PoissonRegressionHead({.compute_full_loss = false}), {4, 1}, {0, -1, 1, 0.5},
     {1, 2, 0, 1.5}, {},
     {{"loss", 1.746220635}, {"average_loss", 1.746220635}, {"prediction/mean", 1.433720635},
      {"label/mean", 1.125}}, 1e-5},
    {"poisson_of_two", PoissonRegressionHead({.label_dimension = 2}), {2, 2}, {0, -1, 1, 2},
     {1, 2, 3, 4}, {},
     {{"loss", 2.012092139}, {"average_loss", 2.012092139}, {"prediction/mean", 2.868804342},
      {"label/mean", 2.5}}, 1e-5},
    {"logistic", LogisticRegressionHead({.weight_column = "w"}), {3, 1}, {0, -1, 1},
     {0.4, 0.6, 0.8}, {1, 2, 3},
     {{"loss", 1.353151873}, {"average_loss", 0.6765759364}, {"prediction/mean", 0.5385097631},
      {"label/mean", 0.6666666667}}, 1e-5},
    {"labels_thresholds", MultiLabelHead({.n_classes = 2, .thresholds = {0.25, 0.5, 0.75}}),
     {2, 2}, {-1, 1, -1.5, 1.5}, {1, 0, 1, 1}, {},
     {{"loss", 1.132337483}, {"average_loss", 1.132337483}, {"auc", 0.3333333333},
      {"auc_precision_recall", 0.7689509398}, {"accuracy/positive_threshold_0.25", 0.5},
      {"precision/positive_threshold_0.25", 0.6666666667},
      {"recall/positive_threshold_0.25", 0.6666666667}, {"accuracy/positive_threshold_0.5", 0.25},
      {"precision/positive_threshold_0.5", 0.5}, {"recall/positive_threshold_0.5", 0.3333333333},
      {"accuracy/positive_threshold_0.75", 0.5}, {"precision/positive_threshold_0.75", 1},
      {"recall/positive_threshold_0.75", 0.3333333333}}, 1e-5},
    {"labels_weighted", MultiLabelHead({.n_classes = 2, .weight_column = "w"}), {2, 2},
     {-10, 10, -15, 10}, {1, 0, 1, 1}, {1, 2},
     {{"loss", 12.50004555}, {"average_loss", 8.333363701}, {"auc", 0.2},
      {"auc_precision_recall", 0.7280372306}}, 1e-5},
    {"labels_sum", MultiLabelHead({.n_classes = 2, .weight_column = "w", .loss_reduction = kAdds}),
     {2, 2}, {-10, 10, -15, 10}, {1, 0, 1, 1}, {1, 2},
     {{"loss", 25.0000911}, {"average_loss", 8.333363701}}, 1e-5},
    {"labels_many", MultiLabelHead({.n_classes = 3, .weight_column = "w", .thresholds = {0.3},
     .classes_for_class_based_metrics = {1, 2}}), {6, 3}, {1.66, 1.68, 2.23, -1.68, 1.27, -2.79,
     -0.9, -2.87, 1.57, 2, -0.3, 2.66, -1.01, 0.23, 0.23, -1.6, 0.66, 2.91},
     {0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0}, {1, 2, 0, 0.5, 3, 1},
     {{"loss", 1.302854862}, {"average_loss", 1.04228389}, {"auc", 0.4453441296},
      {"auc_precision_recall", 0.3675204167}, {"accuracy/positive_threshold_0.3", 0.6},
      {"precision/positive_threshold_0.3", 0.5172413793},
      {"recall/positive_threshold_0.3", 0.7894736842}, {"probability_mean/class1", 0.659756362},
      {"auc/class1", 0.3571428571}, {"auc_precision_recall/class1", 0.580288159},
      {"probability_mean/class2", 0.5474719663}, {"auc/class2", 0.04545454545},
      {"auc_precision_recall/class2", 0.5267836936}}, 1e-5},
  };
  return cases;
}
// clang-format on

class GoldenHeads : public ::testing::TestWithParam<GoldenHead> {};

struct GoldenBatch {
  Tensor logits, labels, weights;
  GoldenBatch row(int64_t i) const {
    const auto of = [i](const Tensor& all) { return all.defined() ? all.slice(0, i, i + 1) : all; };
    return {of(logits), of(labels), of(weights)};
  }
};

GoldenBatch batch_of(const GoldenHead& golden) {
  Shape examples = golden.shape;
  examples.pop_back();
  const bool classes = golden.head.rule().kind() == "MultiClassHead";
  return {numbers(golden.logits, golden.shape),
          numbers(golden.labels, classes ? examples : golden.shape, classes ? kInt64 : kFloat32),
          golden.weights.empty() ? Tensor() : numbers(golden.weights, examples)};
}

TEST_P(GoldenHeads, GiveLossAndMetrics) {
  const GoldenHead& golden = GetParam();
  const GoldenBatch batch = batch_of(golden);
  const Features features = features_with(batch.weights);
  std::vector<Tensor> penalties;
  for (const double penalty : golden.regularization) penalties.push_back(numbers({penalty}, {}));
  const Labels labels = labels_of(batch.labels);
  const auto whole = golden.head.metrics(features, labels, batch.logits, penalties);
  std::map<std::string, Metric> merged;
  for (int64_t i = 0; i < golden.shape[0]; ++i) {
    const GoldenBatch row = batch.row(i);
    for (const auto& [name, metric] : golden.head.metrics(
             features_with(row.weights), labels_of(row.labels), row.logits, penalties)) {
      const auto [known, fresh] = merged.emplace(name, metric);
      if (!fresh) known->second.merge(metric);
    }
  }
  for (const auto& [name, expected] : golden.expected) {
    const double most = golden.tolerance * (1 + std::abs(expected));
    if (name == "loss") {
      const Tensor loss = golden.head.loss(features, labels, batch.logits, penalties);
      EXPECT_NEAR(loss.item<double>(), expected, most);
      continue;
    }
    EXPECT_NEAR(whole.at(name).result(), expected, most) << name;
    EXPECT_NEAR(merged.at(name).result(), expected, most) << name << ", row by row";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenHeads, ::testing::ValuesIn(golden()),
                         [](const auto& info) { return std::string(info.param.id); });
INSTANTIATE_TEST_SUITE_P(Computed, GoldenHeads, ::testing::ValuesIn(computed()),
                         [](const auto& info) { return std::string(info.param.id); });

void expect_near(const Tensor& tensor, const Row& expected, const Shape& shape) {
  ASSERT_EQ(tensor.sizes().vec(), shape);
  const Tensor wanted = numbers(expected, shape, kFloat64);
  EXPECT_LT((tensor.to(kFloat64) - wanted).abs().max().item<double>(), 2e-6) << tensor;
}

std::vector<std::string> texts(const Strings& strings) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < strings.size(); ++i) all.emplace_back(strings[i]);
  return all;
}

std::vector<std::string> keys(const std::map<std::string, ExportOutput>& outputs) {
  std::vector<std::string> all;
  for (const auto& [key, output] : outputs) all.push_back(key);
  return all;
}

// head_bin_predict.
TEST(GoldenPredictions, OfTwoClasses) {
  const Head head = BinaryClassHead();
  const Tensor logits = numbers({0.3, -0.4}, {2, 1});
  const auto all = head.predictions(logits);
  expect_near(all.at("logistic"), {0.574443, 0.401312}, {2, 1});
  expect_near(all.at("probabilities"), {0.425557, 0.574443, 0.598688, 0.401312}, {2, 2});
  expect_near(all.at("class_ids"), {1, 0}, {2, 1});
  expect_near(all.at("all_class_ids"), {0, 1, 0, 1}, {2, 2});
  EXPECT_EQ(texts(head.class_names(all.at("class_ids"))), (std::vector<std::string>{"1", "0"}));
  EXPECT_EQ(head.class_names(all.at("class_ids")).shape(), (Shape{2, 1}));
  EXPECT_EQ(
      keys(head.export_outputs(logits)),
      (std::vector<std::string>{"classification", "predict", "regression", "serving_default"}));
}

// base_cls_predict: small probabilities keep their digits.
TEST(GoldenPredictions, OfASureHead) {
  const auto all = BinaryClassHead().predictions(numbers({10}, {1, 1}));
  EXPECT_NEAR(all.at("probabilities")[0][0].item<double>() / 4.5397868702390376e-05, 1, 1e-6);
  EXPECT_NEAR(all.at("logistic")[0][0].item<double>(), 0.9999546021312976, 1e-7);
}

// head_poisson_predict, dnn_reg_predict_3d.
TEST(GoldenPredictions, OfNumbers) {
  const auto counts = PoissonRegressionHead().predictions(numbers({0, -1, 1}, {3, 1}));
  expect_near(counts.at("predictions"), {1, 0.36787944117144233, 2.718281828459045}, {3, 1});
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_TRUE(counts.contains("logits"));
  const Tensor logits = numbers({-0.48, 0.48, 0.39}, {1, 3});
  const auto plain = RegressionHead({.label_dimension = 3}).predictions(logits);
  expect_near(plain.at("predictions"), {-0.48, 0.48, 0.39}, {1, 3});
  EXPECT_EQ(plain.size(), 1u);
}

// head_multihead_split_multidim.
TEST(GoldenMultiHead, DividesTheLastAxisInTheOrderOfHeads) {
  const Head head = MultiHead({.heads = {RegressionHead({.label_dimension = 2, .name = "head1"}),
                                         RegressionHead({.label_dimension = 3, .name = "head2"})}});
  const Tensor logits = numbers(
      {-1, 1, 2, -2, 2, -1, 1, 2, -2, 2, -1.5, 1.5, -2, 2, -2, -1.5, 1.5, -2, 2, -2}, {2, 2, 5});
  const Labels labels(
      Element::dict({{"head1", numbers({1, 0, 1, 0, 1.5, 1.5, 1.5, 1.5}, {2, 2, 2})},
                     {"head2", numbers({0, 1, 0, 0, 1, 0, 2, 2, 0, 2, 2, 0}, {2, 2, 3})}}));
  EXPECT_EQ(head.logits_dimension(), 5);
  EXPECT_NEAR(head.loss(features_with({}), labels, logits).item<double>(), 9.667, 1e-3 * 10);
}

}  // namespace
}  // namespace muster::inline v0_1
