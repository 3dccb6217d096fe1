// Values of every loss, compared with numbers computed apart from Muster and those Keras documents.
#include <gtest/gtest.h>

#include "muster/losses/internal/every_loss.h"

namespace muster::inline v0_1::losses {
namespace {

// Some weights of the two examples.
const std::vector<double> kTwoWeights = {0.5, 3};

TEST(EveryLoss, AgreesWithThePlainFormula) {
  for (const LossCase& each : every_loss()) {
    SCOPED_TRACE(each.name);
    const Tensor y = each.labels_as(at::kDouble);
    const Tensor p = each.predictions_as(at::kDouble);
    const Tensor losses = each.loss(y, p, {}, Reduction::kNone);
    ASSERT_EQ(losses.sizes(), (std::vector<int64_t>{2}));
    for (int64_t i = 0; i < 2; ++i) {
      const double expected = each.expected[i];
      EXPECT_NEAR(losses[i].item<double>(), expected, 1e-12 * std::max(1.0, std::abs(expected)));
    }
    const Tensor singles = each.loss(y, each.predictions_as(at::kFloat), {}, Reduction::kNone);
    EXPECT_EQ(singles.scalar_type(), at::kFloat);
    EXPECT_TRUE(at::allclose(singles.to(at::kDouble), losses, 2e-5, 1e-6)) << singles;
  }
}

TEST(EveryLoss, IsWeightedAndReduced) {
  const Tensor weights = torch::tensor(kTwoWeights, at::kDouble);
  for (const LossCase& each : every_loss()) {
    SCOPED_TRACE(each.name);
    const Tensor y = each.labels_as(at::kDouble);
    const Tensor p = each.predictions_as(at::kDouble);
    const double sum = each.expected[0] + each.expected[1];
    const double weighted = 0.5 * each.expected[0] + 3 * each.expected[1];
    const double tolerance = 1e-11 * std::max(1.0, std::abs(weighted));
    const auto value = [&](const Tensor& w, Reduction r) {
      return each.loss(y, p, w, r).item<double>();
    };
    EXPECT_NEAR(value({}, Reduction::kMean), sum / 2, tolerance);
    EXPECT_NEAR(value({}, Reduction::kSum), sum, tolerance);
    // The mean divides by the number of examples, not by the sum of their weights.
    EXPECT_NEAR(value(weights, Reduction::kSumOverBatchSize), weighted / 2, tolerance);
    EXPECT_NEAR(value(weights.unsqueeze(1), Reduction::kSum), weighted, tolerance);
    EXPECT_NEAR(value(torch::tensor(4), Reduction::kMean), 2 * sum, tolerance);
    const Tensor parts = each.loss(y, p, weights, Reduction::kNone);
    EXPECT_NEAR(parts[1].item<double>(), 3 * each.expected[1], tolerance);
  }
}

TEST(EveryLoss, OfHalfPrecisionIsComputedInSingle) {
  for (const LossCase& each : every_loss()) {
    for (const auto dtype : {at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(each.name);
      const Tensor y = each.labels_as(at::kFloat);
      Tensor p = each.predictions_as(dtype).requires_grad_();
      const Tensor loss = each.loss(y, p, {}, Reduction::kMean);
      EXPECT_EQ(loss.scalar_type(), at::kFloat);
      EXPECT_EQ(loss.item<float>(),
                each.loss(y, p.detach().to(at::kFloat), {}, Reduction::kMean).item<float>());
      loss.backward();
      EXPECT_EQ(p.grad().scalar_type(), dtype);
      EXPECT_TRUE(p.grad().to(at::kFloat).abs().sum().item<float>() > 0);
    }
  }
}

TEST(EveryLoss, OfNoExamplesIsNothing) {
  for (const LossCase& each : every_loss()) {
    for (const auto reduction : {Reduction::kMean, Reduction::kSum}) {
      SCOPED_TRACE(each.name);
      Tensor kernel = torch::full({4, 3}, 0.3).requires_grad_();
      const Tensor loss = each.loss(torch::zeros({0, 3}), torch::zeros({0, 4}).mm(kernel),
                                    torch::zeros({0}), reduction);
      EXPECT_EQ(loss.item<float>(), 0);
      loss.backward();
      EXPECT_TRUE(kernel.grad().eq(0).all().item<bool>());
    }
  }
}

struct Documented {
  const char* name;  // the loss, as in every_loss()
  std::vector<double> labels;
  std::vector<double> predictions;
  int64_t columns;
  std::vector<double> weights;  // none, one, or one for each row
  double expected;
  double tolerance;
};

// Figures of Keras's documentation and tests.
const std::vector<Documented>& documented() {
  static const std::vector<double> y = {1, 9, 2, -5, -2, 6};
  static const std::vector<double> p = {4, 8, 12, 8, 1, 3};
  static const std::vector<Documented> cases = {
      {"mean_squared_error", y, p, 3, {}, 49.5, 1e-4},
      {"mean_squared_error", y, p, 3, {2.3}, 113.85, 1e-4},
      {"mean_squared_error", y, p, 3, {1.2, 3.4}, 767.8 / 6, 1e-4},
      {"mean_squared_error", y, p, 1, {3, 6, 5, 0, 4, 2}, 587.0 / 6, 1e-4},
      {"mean_absolute_error", y, p, 3, {}, 5.5, 1e-4},
      {"mean_absolute_error", y, p, 3, {1.2, 3.4}, 81.4 / 6, 1e-4},
      {"mean_absolute_percentage_error", y, p, 3, {}, 211.8518, 1e-3},
      {"mean_absolute_percentage_error", y, p, 3, {1.2, 3.4}, 422.8888, 1e-3},
      {"mean_squared_logarithmic_error", y, p, 3, {}, 1.4370, 1e-3},
      {"mean_squared_logarithmic_error", y, p, 3, {1.2, 3.4}, 3.7856, 1e-3},
      {"binary_crossentropy", {0, 1, 0, 0}, {0.6, 0.4, 0.4, 0.6}, 2, {}, 0.815, 1e-3},
      {"binary_crossentropy", {0, 1, 0, 0}, {0.6, 0.4, 0.4, 0.6}, 2, {1, 0}, 0.458, 1e-3},
      {"binary_crossentropy", {1, 0, 1, 0}, {1, 1, 1, 0}, 2, {}, 3.83331, 1e-3},
      {"binary_crossentropy_logits",
       {1, 0, 1, 0, 1, 1},
       {100, -100, 100, 100, 100, -100},
       3,
       {},
       33.33333,
       1e-3},
      {"binary_crossentropy_logits",
       {1, 0, 1, 0, 1, 1},
       {100, -100, 100, 100, 100, -100},
       3,
       {4, 3},
       100,
       1e-3},
      {"categorical_crossentropy",
       {0, 1, 0, 0, 0, 1},
       {0.05, 0.95, 0, 0.1, 0.8, 0.1},
       3,
       {},
       1.177,
       1e-3},
      {"categorical_crossentropy",
       {0, 1, 0, 0, 0, 1},
       {0.05, 0.95, 0, 0.1, 0.8, 0.1},
       3,
       {0.3, 0.7},
       0.814,
       1e-3},
      {"categorical_focal_crossentropy",
       {0, 1, 0, 0, 0, 1},
       {0.05, 0.9, 0.05, 0.1, 0.85, 0.05},
       3,
       {1, 0},
       2.63401289e-04 / 2,
       1e-7},
      {"categorical_focal_crossentropy",
       {0, 1, 0, 0, 0, 1},
       {0.05, 0.9, 0.05, 0.1, 0.85, 0.05},
       3,
       {0, 1},
       6.75912094e-01 / 2,
       1e-6},
      {"huber", {0, 1, 0, 0}, {0.6, 0.4, 0.4, 0.6}, 2, {}, 0.155, 1e-6},
      {"huber", {0, 1, 0, 0}, {0.6, 0.4, 0.4, 0.6}, 2, {1, 0}, 0.09, 1e-6},
      {"log_cosh", {0, 1, 0, 0}, {1, 1, 0, 0}, 2, {}, 0.108, 1e-3},
      {"hinge", {0, 1, 0, 0}, {0.6, 0.4, 0.4, 0.6}, 2, {}, 1.3, 1e-6},
      {"squared_hinge", {0, 1, 0, 0}, {0.6, 0.4, 0.4, 0.6}, 2, {}, 1.86, 1e-6},
      {"categorical_hinge", {0, 1, 0, 0}, {0.6, 0.4, 0.4, 0.6}, 2, {}, 1.4, 1e-6},
      {"kl_divergence", {0, 1, 0, 0}, {0.6, 0.4, 0.4, 0.6}, 2, {}, 0.458, 1e-3},
      {"poisson", {0, 1, 0, 0}, {1, 1, 0, 0}, 2, {}, 0.5, 1e-6},
      {"cosine_similarity", {0, 1, 1, 1}, {1, 0, 1, 1}, 2, {}, -0.5, 1e-6},
  };
  return cases;
}

TEST(EveryLoss, AgreesWithKerasFigures) {
  for (const Documented& figure : documented()) {
    SCOPED_TRACE(figure.name);
    const auto found = std::ranges::find(every_loss(), figure.name, &LossCase::name);
    ASSERT_NE(found, every_loss().end());
    const Tensor y = torch::tensor(figure.labels, at::kFloat).view({-1, figure.columns});
    const Tensor p = torch::tensor(figure.predictions, at::kFloat).view({-1, figure.columns});
    Tensor weights;
    if (!figure.weights.empty()) weights = torch::tensor(figure.weights, at::kFloat);
    EXPECT_NEAR(found->loss(y, p, weights, Reduction::kMean).item<float>(), figure.expected,
                figure.tolerance);
  }
}

TEST(LogCosh, OfLargeErrorsIsTheirDistance) {
  const Tensor p = torch::tensor({{500.0, -500.0, 30.0}}, at::kDouble);
  const Tensor loss = log_cosh(torch::zeros({1, 3}), p);
  EXPECT_NEAR(loss.item<double>(), (500 + 500 + 30) / 3.0 - std::log(2.0), 1e-12);
}

TEST(CosineSimilarity, OfZerosIsZeroAndOtherAxesAreVectors) {
  EXPECT_EQ(losses::cosine_similarity(torch::zeros({1, 3}), torch::ones({1, 3})).item<float>(), 0);
  const Tensor y = torch::tensor({1.0, 2.0, -1.0, 0.5, 1.0, 3.0}).view({1, 3, 2});
  const Tensor p = torch::tensor({0.5, 1.0, 1.0, -2.0, 0.25, 1.0}).view({1, 3, 2});
  const Tensor across = losses::cosine_similarity(y, p, {.axis = 1, .reduction = Reduction::kNone});
  const Tensor along = losses::cosine_similarity(y.transpose(1, 2), p.transpose(1, 2),
                                                 {.reduction = Reduction::kNone});
  EXPECT_EQ(across.sizes(), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(at::allclose(across, along));
}

TEST(Hinge, TakesZerosAsMinusOneWhateverTheOtherLabels) {
  const Tensor p = torch::tensor({{0.3, -0.2, 2.0}}, at::kDouble);
  const double expected = hinge(torch::tensor({{-1, 1, 1}}), p).item<double>();
  EXPECT_EQ(hinge(torch::tensor({{0, 1, 1}}), p).item<double>(), expected);
  EXPECT_NEAR(hinge(torch::tensor({{0, -1, 1}}), p).item<double>(), (1.3 + 0.8) / 3, 1e-12);
}

}  // namespace
}  // namespace muster::inline v0_1::losses
