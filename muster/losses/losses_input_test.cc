// Inputs that losses refuse, and their errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "muster/base/error_of.h"
#include "muster/losses/internal/every_loss.h"

namespace muster::inline v0_1::losses {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The function of a case: "huber" of "huber_delta".
bool named(const LossCase& each, const std::string& message) {
  const std::string function = message.substr(0, message.find_first_of(":,"));
  return each.name.starts_with(function);
}

TEST(EveryLoss, ShowsBothShapes) {
  for (const LossCase& each : every_loss()) {
    SCOPED_TRACE(each.name);
    const std::string told = message_of([&] {
      each.loss(torch::zeros({4, 3}), torch::zeros({2, 3}), {}, Reduction::kMean);
    });
    EXPECT_TRUE(named(each, told)) << told;
    EXPECT_THAT(told, HasSubstr("[4"));
    EXPECT_THAT(told, HasSubstr("do not fit predictions float32[2, 3]"));
    const std::string weights = message_of([&] {
      each.loss(each.labels_as(at::kFloat), each.predictions_as(at::kFloat), torch::ones({3}),
                Reduction::kMean);
    });
    EXPECT_THAT(weights,
                StartsWith("sample_weight float32[3] does not fit losses float32[2]; of "));
    EXPECT_TRUE(named(each, weights.substr(weights.find("; of ") + 5))) << weights;
  }
}

TEST(EveryLoss, RefusesPredictionsThatAreNoNumbers) {
  for (const LossCase& each : every_loss()) {
    SCOPED_TRACE(each.name);
    const Tensor whole = torch::zeros({2, 3}, at::kLong);
    const std::string told = message_of([&] {
      each.loss(torch::zeros({2, 3}), whole, {}, Reduction::kMean);
    });
    EXPECT_TRUE(named(each, told)) << told;
    EXPECT_THAT(told, HasSubstr("predictions are int64[2, 3]"));
    EXPECT_THAT(message_of([&] {
                  each.loss(torch::zeros({2, 3}), Tensor(), {}, Reduction::kMean);
                }),
                HasSubstr("the predictions are undefined"));
  }
}

TEST(Losses, NamesTheLabelThatIsNoProbability) {
  const Tensor p = torch::full({2, 3}, 0.3);
  const Tensor y = torch::tensor({{0.0, 1.0, 0.0}, {0.0, 7.0, -1.0}});
  const auto place = " the label of row 1, position 1, is 7, outside [0, 1]";
  EXPECT_EQ(message_of([&] { binary_crossentropy(y, p); }),
            std::string("binary_crossentropy:") + place);
  EXPECT_EQ(message_of([&] { categorical_crossentropy(y, p); }),
            std::string("categorical_crossentropy:") + place);
  EXPECT_EQ(message_of([&] { binary_focal_crossentropy(y, p); }),
            std::string("binary_focal_crossentropy:") + place);
  EXPECT_EQ(message_of([&] { categorical_focal_crossentropy(y, p); }),
            std::string("categorical_focal_crossentropy:") + place);
  EXPECT_EQ(message_of([&] {
              binary_crossentropy(torch::tensor({0.0, std::nan("")}), torch::tensor({0.5, 0.5}));
            }),
            "binary_crossentropy: the label of row 1 is nan, outside [0, 1]");
}

// Without from_logits, logits would train badly and say nothing.
TEST(Losses, NameThePredictionThatIsNoProbability) {
  const Tensor y = torch::tensor({{0.0, 1.0}, {1.0, 0.0}}), p = torch::full({2, 2}, 0.5);
  const Tensor logits = torch::tensor({{0.5, 1.0}, {2.5, -1.0}});
  for (const Tensor& given :
       {logits, logits.to(at::kDouble), logits.to(at::kBFloat16), logits.t().contiguous().t()}) {
    const auto refused = [&](const auto& loss) {
      const Error error = error_of([&] { loss(given); });
      EXPECT_EQ(error.hint(), "predictions are probabilities; for logits: {.from_logits = true}");
      return error.message();
    };
    const std::string outside = ": the prediction of row 1, position 0, is 2.5, outside [0, 1]";
    const std::string below = ": the prediction of row 1, position 1, is -1, below 0";
    EXPECT_EQ(refused([&](const Tensor& x) { binary_crossentropy(y, x); }),
              "binary_crossentropy" + outside);
    EXPECT_EQ(refused([&](const Tensor& x) { binary_focal_crossentropy(y, x); }),
              "binary_focal_crossentropy" + outside);
    EXPECT_EQ(refused([&](const Tensor& x) {
                sparse_categorical_crossentropy(torch::tensor({1, 0}), x);
              }),
              "sparse_categorical_crossentropy" + outside);
    // They are scaled to sum 1, so only their sign shows it.
    EXPECT_EQ(refused([&](const Tensor& x) { categorical_crossentropy(y, x); }),
              "categorical_crossentropy" + below);
    EXPECT_EQ(refused([&](const Tensor& x) { categorical_focal_crossentropy(y, x); }),
              "categorical_focal_crossentropy" + below);
  }
  EXPECT_NO_THROW(binary_crossentropy(y, logits, {.from_logits = true}));
  EXPECT_NO_THROW(categorical_crossentropy(y, 3 * p));
  EXPECT_NO_THROW(binary_crossentropy(y, p + 0.5005)) << "rounding is none";
  EXPECT_TRUE(binary_crossentropy(y, p * NAN).isnan().item<bool>()) << "the loss shows it";
  // It looks at the first rows alone.
  Tensor late = torch::full({2000, 1}, 0.5);
  late[1500][0] = 7;
  EXPECT_NO_THROW(binary_crossentropy(torch::zeros({2000, 1}), late));
}

TEST(Losses, NameOptionsThatAreOutOfRange) {
  const Tensor y = torch::tensor({{0, 1}, {1, 0}});
  const Tensor p = torch::full({2, 2}, 0.5);
  const double nan = std::nan("");
  EXPECT_EQ(message_of([&] { binary_crossentropy(y, p, {.label_smoothing = 1.5}); }),
            "binary_crossentropy: label_smoothing is 1.5; it must be in [0, 1]");
  EXPECT_EQ(message_of([&] { categorical_crossentropy(y, p, {.label_smoothing = -0.1}); }),
            "categorical_crossentropy: label_smoothing is -0.1; it must be in [0, 1]");
  EXPECT_EQ(message_of([&] { binary_focal_crossentropy(y, p, {.gamma = -1}); }),
            "binary_focal_crossentropy: gamma is -1; it must be finite and 0 or more");
  EXPECT_EQ(message_of([&] { binary_focal_crossentropy(y, p, {.alpha = 2}); }),
            "binary_focal_crossentropy: alpha is 2; it must be in [0, 1]");
  EXPECT_EQ(message_of([&] { categorical_focal_crossentropy(y, p, {.gamma = nan}); }),
            "categorical_focal_crossentropy: gamma is nan; it must be finite and 0 or more");
  EXPECT_EQ(message_of([&] {
              categorical_focal_crossentropy(y, p, {.alpha = {1, 2, 3}});
            }),
            "categorical_focal_crossentropy: alpha has 3 weights, for 2 classes");
  EXPECT_EQ(message_of([&] {
              categorical_focal_crossentropy(y, p, {.alpha = {1, -2}});
            }),
            "categorical_focal_crossentropy: alpha is -2; it must be finite and 0 or more");
  for (const double delta : {0.0, -1.0, nan})
    EXPECT_THAT(message_of([&] { huber(y, p, {.delta = delta}); }), StartsWith("huber: delta is "));
}

TEST(Losses, NameAnAxisThatIsNone) {
  const Tensor y = torch::tensor({{0, 1}, {1, 0}});
  const Tensor p = torch::full({2, 2}, 0.5);
  for (const int64_t axis : {0, 2, -2, -3}) {
    const std::string wrong =
        ": axis is " + std::to_string(axis) + ", for predictions float32[2, 2]";
    EXPECT_EQ(message_of([&] { binary_crossentropy(y, p, {.axis = axis}); }),
              "binary_crossentropy" + wrong);
    EXPECT_EQ(message_of([&] { categorical_crossentropy(y, p, {.axis = axis}); }),
              "categorical_crossentropy" + wrong);
    EXPECT_EQ(message_of([&] { binary_focal_crossentropy(y, p, {.axis = axis}); }),
              "binary_focal_crossentropy" + wrong);
    EXPECT_EQ(message_of([&] { categorical_focal_crossentropy(y, p, {.axis = axis}); }),
              "categorical_focal_crossentropy" + wrong);
    EXPECT_EQ(message_of([&] { cosine_similarity(y, p, {.axis = axis}); }),
              "cosine_similarity" + wrong);
    EXPECT_EQ(message_of([&] {
                sparse_categorical_crossentropy(torch::tensor({0, 1}), p, {.axis = axis});
              }),
              "sparse_categorical_crossentropy" + wrong);
  }
}

TEST(Losses, LabelsMayLackALastAxisOfOneAndNoOther) {
  const Tensor y = torch::tensor({{0.0, 1.0}, {1.0, 0.0}});
  const Tensor p = torch::full({2, 2, 1}, 0.25);
  const Tensor losses = mean_squared_error(y, p, {.reduction = Reduction::kNone});
  EXPECT_TRUE(losses.equal(torch::tensor({{0.0625, 0.5625}, {0.5625, 0.0625}})));
  EXPECT_EQ(message_of([&] { mean_squared_error(p, y); }),
            "mean_squared_error: labels float32[2, 2, 1] do not fit predictions float32[2, 2]");
}

TEST(Losses, ClassNumbersForOneHotLabelsAreReported) {
  const Error error = error_of([] {
    categorical_crossentropy(torch::tensor({0, 1}), torch::full({2, 4}, 0.25));
  });
  EXPECT_EQ(error.message(),
            "categorical_crossentropy: labels int64[2] do not fit predictions float32[2, 4]");
  EXPECT_THAT(error.hint(), HasSubstr("sparse_categorical_crossentropy"));
  const Tensor one_hot = torch::eye(2, 4);
  for (const auto dtype : {kInt64, kFloat32}) {
    EXPECT_THAT(error_of([&] {
                  sparse_categorical_crossentropy(one_hot.to(dtype), torch::full({2, 4}, 0.25));
                }).hint(),
                HasSubstr("one-hot labels are for categorical_crossentropy"));
  }
  EXPECT_EQ(message_of([] { kl_divergence(torch::zeros({3}), torch::zeros({3})); }),
            "kl_divergence: predictions are float32[3]");
  EXPECT_EQ(message_of([] {
              hinge(torch::zeros({3, 0}), torch::zeros({3, 0}));
            }),
            "hinge: predictions are float32[3, 0]");
}

TEST(SparseCategoricalCrossentropy, NamesALabelOtherThanTheIgnoredOne) {
  EXPECT_EQ(message_of([] {
              sparse_categorical_crossentropy(torch::tensor({-1, 2, -2}), torch::zeros({3, 3}),
                                              {.ignore_class = -1});
            }),
            "sparse_categorical_crossentropy: the label of row 2 is -2, outside [0, 3)");
}

}  // namespace
}  // namespace muster::inline v0_1::losses
