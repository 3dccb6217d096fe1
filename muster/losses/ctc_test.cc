#include "muster/losses/ctc.h"

#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

// Adds the probabilities of all paths of `times` classes that read as `labels`.
double by_all_paths(const Tensor& probabilities, int64_t times, int64_t blank,
                    const std::vector<int64_t>& labels) {
  const int64_t classes = probabilities.size(1);
  const auto paths = static_cast<int64_t>(std::pow(classes, times));
  double sum = 0;
  for (int64_t path = 0; path < paths; ++path) {
    std::vector<int64_t> read;
    double probability = 1;
    int64_t last = blank;
    for (int64_t t = 0, rest = path; t < times; ++t, rest /= classes) {
      const int64_t now = rest % classes;
      probability *= probabilities[t][now].item<double>();
      if (now != blank && now != last) read.push_back(now);
      last = now;
    }
    if (read == labels) sum += probability;
  }
  return -std::log(sum);
}

Tensor scores() { return (torch::arange(36, at::kDouble) * 12.9898).sin().view({3, 4, 3}) * 2; }

TEST(CtcLoss, AddsAllPathsThatReadAsTheLabels) {
  for (const int64_t blank : {0, 2, -1}) {
    const int64_t first = blank == 0 ? 1 : 0;
    const std::vector<std::vector<int64_t>> labels = {
        {first, first}, {1, 2 - 2 * (blank != 0)}, {}};
    const std::vector<int64_t> times = {4, 3, 2};
    Tensor padded = torch::full({3, 2}, -7);
    Tensor lengths = torch::zeros({3, 1}, at::kInt);
    for (int64_t row = 0; row < 3; ++row) {
      lengths[row][0] = static_cast<int64_t>(labels[row].size());
      for (size_t i = 0; i < labels[row].size(); ++i)
        padded[row][static_cast<int64_t>(i)] = labels[row][i];
    }
    const Tensor losses =
        ctc_loss(padded, scores(), lengths, torch::tensor(times),
                 {.from_logits = true, .blank_index = blank, .reduction = Reduction::kNone});
    ASSERT_EQ(losses.sizes(), Shape{3});
    for (int64_t row = 0; row < 3; ++row) {
      EXPECT_NEAR(
          losses[row].item<double>(),
          by_all_paths(scores()[row].softmax(-1), times[row], blank < 0 ? 2 : blank, labels[row]),
          1e-10)
          << "row " << row << " with the blank " << blank;
    }
  }
}

TEST(CtcLoss, TakesProbabilitiesAsKeras) {
  const Tensor p = scores().softmax(-1);
  // Keras adds 1e-7, and TensorFlow scales its input to sum 1.
  const Tensor scaled = (p + 1e-7) / (p + 1e-7).sum(-1, true);
  const Tensor loss = losses::ctc_loss(torch::tensor({{0, 1}, {1, 1}, {0, 0}}), p,
                                       torch::tensor({2, 2, 1}), torch::tensor({4, 4, 3}));
  EXPECT_NEAR(loss.item<double>(),
              (by_all_paths(scaled[0], 4, 2, {0, 1}) + by_all_paths(scaled[1], 4, 2, {1, 1}) +
               by_all_paths(scaled[2], 3, 2, {0})) /
                  3,
              1e-10);
}

TEST(CtcLoss, IsWeightedAndComputedInSingle) {
  const Tensor labels = torch::tensor({{0, 1}, {1, 1}, {0, 0}});
  const Tensor label_length = torch::tensor({2, 2, 1});
  const Tensor logit_length = torch::tensor({4, 4, 3});
  const auto loss = [&](const Tensor& x, const Tensor& w, Reduction r) {
    return ctc_loss(labels, x, label_length, logit_length,
                    {.from_logits = true, .reduction = r, .sample_weight = w});
  };
  const Tensor each = loss(scores(), {}, Reduction::kNone);
  const Tensor weights = torch::tensor({1.0, 0.0, 3.0});
  EXPECT_NEAR(loss(scores(), weights, Reduction::kSum).item<double>(),
              each[0].item<double>() + 3 * each[2].item<double>(), 1e-10);
  const Tensor half = loss(scores().to(at::kBFloat16), {}, Reduction::kMean);
  EXPECT_EQ(half.scalar_type(), at::kFloat);
  EXPECT_NEAR(half.item<float>(), each.mean().item<double>(), 0.02);
}

TEST(CtcLoss, OfNoSequencesIsNothing) {
  Tensor kernel = torch::ones({4, 3}).requires_grad_();
  const Tensor none = torch::zeros({0}, at::kLong);
  const Tensor loss =
      ctc_loss(torch::zeros({0, 2}, at::kLong), torch::zeros({0, 5, 4}).matmul(kernel), none, none,
               {.from_logits = true});
  EXPECT_EQ(loss.item<float>(), 0);
  loss.backward();
  EXPECT_TRUE(kernel.grad().eq(0).all().item<bool>());
}

TEST(CtcLoss, RefusesWhatCannotBeRead) {
  const Tensor x = torch::zeros({2, 4, 3});
  const Tensor labels = torch::tensor({{0, 1}, {1, 1}});
  const Tensor two = torch::tensor({2, 2});
  const Tensor four = torch::tensor({4, 4});
  const auto told = [&](const Tensor& y, const Tensor& p, const Tensor& a, const Tensor& b,
                        int64_t blank = -1) {
    return message_of([&] { ctc_loss(y, p, a, b, {.blank_index = blank}); });
  };
  EXPECT_EQ(told(torch::tensor({{0, 1}, {1, 5}}), x, two, four),
            "ctc_loss: the label of row 1, position 1, is 5, outside [0, 3)");
  EXPECT_EQ(told(torch::tensor({{2, 1}, {1, 1}}), x, two, four),
            "ctc_loss: the label of row 0, position 0, is 2, the blank");
  EXPECT_EQ(told(labels, x, two, torch::tensor({4, 2})),
            "ctc_loss: the labels of row 1 need 3 times, its logit_length is 2");
  EXPECT_EQ(told(labels, x, two, torch::tensor({4, 5})),
            "ctc_loss: logit_length of row 1 is 5, outside [1, 4]");
  EXPECT_EQ(told(labels, x, torch::tensor({3, 2}), four),
            "ctc_loss: label_length of row 0 is 3, outside [0, 2]");
  EXPECT_EQ(told(labels, x, torch::tensor({2}), four),
            "ctc_loss: label_length int64[1] does not fit a batch of 2");
  EXPECT_EQ(told(labels, x, two, four, 3), "ctc_loss: blank_index is 3; it must be in [-3, 3)");
  EXPECT_EQ(told(torch::zeros({3, 2}, at::kLong), x, two, four),
            "ctc_loss: labels int64[3, 2] do not fit predictions float32[2, 4, 3]");
  EXPECT_EQ(told(labels, torch::zeros({2, 4}), two, four),
            "ctc_loss: predictions are float32[2, 4]");
  EXPECT_EQ(told(labels.to(at::kFloat), x, two, four), "ctc_loss: labels are float32[2, 2]");
  EXPECT_EQ(told(labels, x, two, {}), "ctc_loss: logit_length are undefined");
  EXPECT_EQ(told(labels, {}, two, four), "ctc_loss: the predictions are undefined");
}

}  // namespace
}  // namespace muster::inline v0_1::losses
