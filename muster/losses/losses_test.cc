#include "muster/losses/losses.h"

#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

// Numbers without a pattern, the same everywhere.
std::vector<double> numbers(int64_t n, double scale, double phase) {
  std::vector<double> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = scale * std::sin(phase + 12.9898 * (i + 1));
  return values;
}

Tensor tensor_of(const std::vector<double>& values, at::IntArrayRef shape) {
  return torch::tensor(values, at::kDouble).reshape(shape);
}

struct Reference {
  std::vector<double> losses;
  std::vector<double> gradient;  // of the sum of the losses
};

Reference softmax_crossentropy(const std::vector<double>& logits, const std::vector<int>& labels,
                               int64_t classes) {
  Reference result;
  for (size_t row = 0; row < labels.size(); ++row) {
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits[row * classes + c]);
    result.losses.push_back(std::log(sum) - logits[row * classes + labels[row]]);
    for (int64_t c = 0; c < classes; ++c) {
      result.gradient.push_back(std::exp(logits[row * classes + c]) / sum -
                                (c == labels[row] ? 1.0 : 0.0));
    }
  }
  return result;
}

TEST(SparseCategoricalCrossentropy, LogitsAgreeWithThePlainFormula) {
  const std::vector<double> logits = numbers(15, 3.0, 0.4);
  const std::vector<int> labels = {2, 0, 1, 1, 2};
  const Reference expected = softmax_crossentropy(logits, labels, 3);
  double total = 0;
  for (double loss : expected.losses) total += loss;

  for (const auto dtype : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong}) {
    for (const bool column : {false, true}) {
      Tensor targets = torch::tensor(labels).to(dtype);
      if (column) targets = targets.unsqueeze(1);
      Tensor x = tensor_of(logits, {5, 3}).requires_grad_();
      const Tensor mean = sparse_categorical_crossentropy(targets, x, {.from_logits = true});
      EXPECT_NEAR(mean.item<double>(), total / 5, 1e-12);
      mean.backward();
      for (int64_t i = 0; i < 15; ++i) {
        EXPECT_NEAR(x.grad().flatten()[i].item<double>(), expected.gradient[i] / 5, 1e-12);
      }
      const Tensor sum = sparse_categorical_crossentropy(
          targets, x, {.from_logits = true, .reduction = Reduction::kSum});
      EXPECT_NEAR(sum.item<double>(), total, 1e-12);
      const Tensor each = sparse_categorical_crossentropy(
          targets, x, {.from_logits = true, .reduction = Reduction::kNone});
      ASSERT_EQ(each.sizes(), (std::vector<int64_t>{5}));
      for (int64_t i = 0; i < 5; ++i) {
        EXPECT_NEAR(each[i].item<double>(), expected.losses[i], 1e-12);
      }
    }
  }
}

TEST(SparseCategoricalCrossentropy, TakesProbabilitiesByDefault) {
  // Keras: clip, then scale to sum 1. Row 0 sums to 1, row 1 to 2, row 2 has a probability of 0
  // where the label is.
  const Tensor probabilities =
      torch::tensor({{0.2, 0.5, 0.3}, {1.0 - 1e-7, 0.4, 0.6}, {0.75, 0.25, 0.0}}, at::kDouble);
  const Tensor labels = torch::tensor({1, 2, 2});
  const Tensor each =
      sparse_categorical_crossentropy(labels, probabilities, {.reduction = Reduction::kNone});
  EXPECT_NEAR(each[0].item<double>(), -std::log(0.5), 1e-12);
  EXPECT_NEAR(each[1].item<double>(), -std::log(0.6 / (2.0 - 1e-7)), 1e-12);
  EXPECT_NEAR(each[2].item<double>(), -std::log(1e-7 / (1.0 + 1e-7)), 1e-9);
}

TEST(SparseCategoricalCrossentropy, LargeLogitsDoNotOverflow) {
  const Tensor logits = torch::tensor({{1000.0f, 0.0f}, {0.0f, 1000.0f}});
  const Tensor each = sparse_categorical_crossentropy(
      torch::tensor({0, 0}), logits, {.from_logits = true, .reduction = Reduction::kNone});
  EXPECT_EQ(each[0].item<float>(), 0.0f);
  EXPECT_EQ(each[1].item<float>(), 1000.0f);
}

TEST(SparseCategoricalCrossentropy, LeadingAxesAreExamples) {
  const std::vector<double> logits = numbers(24, 2.0, 1.1);
  const std::vector<int> labels = {0, 3, 2, 1, 1, 0};
  const Reference expected = softmax_crossentropy(logits, labels, 4);
  const Tensor each = sparse_categorical_crossentropy(
      torch::tensor(labels).reshape({2, 3}), tensor_of(logits, {2, 3, 4}),
      {.from_logits = true, .reduction = Reduction::kNone});
  ASSERT_EQ(each.sizes(), (std::vector<int64_t>{2, 3}));
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(each.flatten()[i].item<double>(), expected.losses[i], 1e-12);
  }
}

TEST(SparseCategoricalCrossentropy, NamesTheLabelOutOfRange) {
  const Tensor logits = torch::zeros({3, 4});
  EXPECT_EQ(
      message_of([&] {
        sparse_categorical_crossentropy(torch::tensor({0, 3, 4}), logits, {.from_logits = true});
      }),
      "sparse_categorical_crossentropy: the label of row 2 is 4, outside [0, 4)");
  EXPECT_EQ(
      message_of([&] {
        sparse_categorical_crossentropy(torch::tensor({0, -100, 1}), logits, {.from_logits = true});
      }),
      "sparse_categorical_crossentropy: the label of row 1 is -100, outside [0, 4)");
}

TEST(SparseCategoricalCrossentropy, NamesTheRowOfASequencesLabel) {
  EXPECT_EQ(
      message_of([] {
        sparse_categorical_crossentropy(torch::tensor({0, 1, 2, 0, 9, 1}).view({2, 3}),
                                        torch::zeros({2, 3, 4}));
      }),
      "sparse_categorical_crossentropy: the label of row 1, position 1, is 9, outside [0, 4)");
  EXPECT_EQ(message_of([] {
              sparse_categorical_crossentropy(torch::tensor({{0}, {7}}), torch::zeros({2, 4}));
            }),
            "sparse_categorical_crossentropy: the label of row 1 is 7, outside [0, 4)");
}

TEST(Losses, ArgumentsTheWrongWayRoundAreReported) {
  const Tensor numbers = torch::tensor({0, 1});
  EXPECT_EQ(error_of([&] {
              sparse_categorical_crossentropy(torch::zeros({2, 4}), numbers);
            }).hint(),
            "the labels come first: sparse_categorical_crossentropy(labels, predictions)");
  EXPECT_EQ(error_of([&] { mean_squared_error(torch::zeros({2}), numbers); }).hint(),
            "the labels come first: mean_squared_error(labels, predictions)");
  // Not where swapping would not help.
  EXPECT_EQ(error_of([&] {
              sparse_categorical_crossentropy(torch::zeros({2}), torch::zeros({2, 4}));
            }).hint(),
            "labels are class numbers of an integer dtype");
  EXPECT_EQ(error_of([&] { mean_squared_error(numbers, numbers); }).hint(),
            "predictions are floating point");
}

TEST(SparseCategoricalCrossentropy, ShowsBothShapes) {
  const std::string text = message_of([&] {
    sparse_categorical_crossentropy(torch::zeros({3}, at::kLong), torch::zeros({2, 4}));
  });
  EXPECT_NE(text.find("int64[3]"), std::string::npos) << text;
  EXPECT_NE(text.find("float32[2, 4]"), std::string::npos) << text;
  message_of([&] { sparse_categorical_crossentropy(torch::zeros({2}), torch::zeros({2, 4})); });
  message_of([&] { sparse_categorical_crossentropy(Tensor(), torch::zeros({2, 4})); });
}

TEST(MeanSquaredError, AgreesWithThePlainFormula) {
  const std::vector<double> labels = numbers(6, 2.0, 0.1);
  const std::vector<double> outputs = numbers(6, 2.0, 0.9);
  std::vector<double> rows(2, 0.0);
  for (int i = 0; i < 6; ++i) rows[i / 3] += std::pow(outputs[i] - labels[i], 2) / 3;
  const Tensor y = tensor_of(labels, {2, 3});
  Tensor x = tensor_of(outputs, {2, 3}).requires_grad_();
  const Tensor mean = mean_squared_error(y, x);
  EXPECT_NEAR(mean.item<double>(), (rows[0] + rows[1]) / 2, 1e-12);
  mean.backward();
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(x.grad().flatten()[i].item<double>(), (outputs[i] - labels[i]) / 3, 1e-12);
  }
  EXPECT_NEAR(mean_squared_error(y, x, {.reduction = Reduction::kSum}).item<double>(),
              rows[0] + rows[1], 1e-12);
  const Tensor each = mean_squared_error(y, x, {.reduction = Reduction::kNone});
  ASSERT_EQ(each.sizes(), (std::vector<int64_t>{2}));
  EXPECT_NEAR(each[1].item<double>(), rows[1], 1e-12);
}

TEST(MeanSquaredError, OneColumnFitsAVectorAndNothingElseIsBroadcast) {
  const Tensor column = torch::tensor({{1.0f}, {2.0f}, {4.0f}});
  const Tensor vector = torch::tensor({1, 4, 4});
  EXPECT_FLOAT_EQ(mean_squared_error(vector, column).item<float>(), 4.0f / 3);
  EXPECT_FLOAT_EQ(mean_squared_error(column, vector.to(at::kFloat)).item<float>(), 4.0f / 3);
  const std::string text = message_of([&] {
    mean_squared_error(torch::zeros({3}), torch::zeros({3, 2}));
  });
  EXPECT_NE(text.find("float32[3]"), std::string::npos) << text;
  EXPECT_NE(text.find("float32[3, 2]"), std::string::npos) << text;
}

TEST(Losses, NoRowsLoseNothingAndMoveNothing) {
  for (const auto reduction : {Reduction::kMean, Reduction::kSum}) {
    for (const bool from_logits : {false, true}) {
      Tensor weights = torch::ones({3, 4}).requires_grad_();
      const Tensor output = torch::zeros({0, 3}).mm(weights);
      const Tensor loss =
          sparse_categorical_crossentropy(torch::zeros({0}, at::kLong), output,
                                          {.from_logits = from_logits, .reduction = reduction});
      EXPECT_EQ(loss.item<float>(), 0.0f);
      loss.backward();
      EXPECT_TRUE(weights.grad().eq(0).all().item<bool>());
    }
    Tensor weights = torch::ones({3, 4}).requires_grad_();
    const Tensor loss = mean_squared_error(torch::zeros({0, 4}), torch::zeros({0, 3}).mm(weights),
                                           {.reduction = reduction});
    EXPECT_EQ(loss.item<float>(), 0.0f);
    loss.backward();
    EXPECT_TRUE(weights.grad().eq(0).all().item<bool>());
  }
}

}  // namespace
}  // namespace muster::inline v0_1::losses
