#include "muster/applications/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::applications {
namespace {

using ::testing::ElementsAre;

std::vector<double> shares(const Tensor& logits, const SampleOptions& options, int draws) {
  const Tensor rows = logits.unsqueeze(0).expand({draws, logits.size(0)});
  const Tensor chosen = sample(rows, options, derive_key(3, {}));
  std::vector<double> counts(static_cast<size_t>(logits.size(0)));
  for (int64_t i = 0; i < draws; ++i) counts[chosen[i].item<int64_t>()] += 1;
  for (double& count : counts) count /= draws;
  return counts;
}

void expect_shares(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  // Five standard deviations of 20000 draws.
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 5 * std::sqrt(expected[i] * (1 - expected[i]) / 20000)) << i;
  }
}

TEST(Sample, DrawsWhatTheLogitsSay) {
  const std::vector<double> p{0.1, 0.4, 0.2, 0.3};
  const Tensor logits = torch::tensor(p, kFloat64).log();
  expect_shares(shares(logits, {}, 20000), p);
  // Squares of these, and their sum 0.3.
  expect_shares(shares(logits, {.temperature = 0.5}, 20000),
                {0.01 / 0.3, 0.16 / 0.3, 0.04 / 0.3, 0.09 / 0.3});
  expect_shares(shares(logits, {.top_k = 2}, 20000), {0, 4.0 / 7, 0, 3.0 / 7});
  expect_shares(shares(logits, {.top_k = 100}, 20000), p);
  // 0.4 and 0.3 are less than 0.75, and a third one is enough.
  expect_shares(shares(logits, {.top_p = 0.75}, 20000), {0, 4.0 / 9, 2.0 / 9, 3.0 / 9});
  expect_shares(shares(logits, {.top_k = 2, .top_p = 0.5}, 20000), {0, 1, 0, 0});
  expect_shares(shares(logits, {.top_p = 1e-9}, 1000), {0, 1, 0, 0});
  expect_shares(shares(logits, {.temperature = 0}, 10), {0, 1, 0, 0});
}

TEST(Sample, DependsOnTheKeyAndTheRowAlone) {
  const Tensor logits = torch::zeros({6, 50});
  const Tensor all = sample(logits, {}, derive_key(1, {}));
  EXPECT_TRUE(torch::equal(all, sample(logits, {}, derive_key(1, {}))));
  EXPECT_FALSE(torch::equal(all, sample(logits, {}, derive_key(2, {}))));
  EXPECT_TRUE(
      torch::equal(all.narrow(0, 0, 3), sample(logits.narrow(0, 0, 3), {}, derive_key(1, {}))));
  EXPECT_FALSE(torch::equal(all, all[0].expand({6})));
}

TEST(Sample, Refuses) {
  const Tensor logits = torch::zeros({1, 4});
  const RandomKey key{};
  EXPECT_EQ(message_of([&] { sample(logits, {.temperature = -1}, key); }),
            "sample: temperature is -1");
  EXPECT_EQ(message_of([&] { sample(logits, {.top_k = -1}, key); }), "sample: top_k is -1");
  EXPECT_EQ(message_of([&] { sample(logits, {.top_p = 0}, key); }), "sample: top_p is 0");
  EXPECT_EQ(message_of([&] { sample(logits[0], {}, key); }),
            "sample: expected logits [batch, vocabulary], was given float32[4]");
  EXPECT_EQ(message_of([&] { sample(logits * NAN, {}, key); }),
            "sample: the logits of row 0 are NaN somewhere, or all -infinity");
  EXPECT_EQ(message_of([&] { sample(logits - INFINITY, {}, key); }),
            "sample: the logits of row 0 are NaN somewhere, or all -infinity");
}

// Predicts that token t + 1 follows token t, of ten.
Tensor counting(const Tensor& tokens) {
  return 50 * torch::one_hot((tokens + 1).remainder(10), 10).to(kFloat32);
}

TEST(Generate, ContinuesFromThePrompt) {
  EXPECT_THAT(generate(counting, {3, 4}, {.max_new_tokens = 4}), ElementsAre(3, 4, 5, 6, 7, 8));
  EXPECT_THAT(generate(counting, {3}, {.max_new_tokens = 0}), ElementsAre(3));
  EXPECT_THAT(generate(counting, {7}, {.max_new_tokens = 40, .stop = 9}), ElementsAre(7, 8, 9));
  const Tensor prompt = torch::tensor({{6}, {2}}, kInt64);
  // The first row is filled up until the second has stopped.
  EXPECT_TRUE(torch::equal(
      generate(counting, prompt, {.max_new_tokens = 40, .stop = 5}),
      torch::tensor({{6, 7, 8, 9, 0, 1, 2, 3, 4, 5}, {2, 3, 4, 5, 5, 5, 5, 5, 5, 5}}, kInt64)));
}

TEST(Generate, ShowsTheModelTheLastTokens) {
  std::vector<int64_t> seen;
  const auto model = [&](const Tensor& tokens) {
    EXPECT_FALSE(torch::GradMode::is_enabled());
    seen.push_back(tokens.size(1));
    return counting(tokens);
  };
  EXPECT_THAT(generate(model, {1}, {.max_new_tokens = 4, .context = 3}),
              ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 3));
}

TEST(Generate, DrawsTheSameWithTheSameSeed) {
  const auto any = [](const Tensor& tokens) {
    return torch::zeros({tokens.size(0), tokens.size(1), 30});
  };
  const auto draw = [&](uint64_t seed) {
    return generate(any, std::vector<int64_t>{0}, {.max_new_tokens = 12, .seed = seed});
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(Generate, Refuses) {
  EXPECT_EQ(message_of([] { generate(counting, std::vector<int64_t>{}); }),
            "generate: the prompt is int64[1, 0]");
  EXPECT_EQ(message_of([] {
              generate(counting, torch::zeros({1, 2}));
            }),
            "generate: the prompt is float32[1, 2]");
  EXPECT_EQ(message_of([] { generate(counting, {1}, {.max_new_tokens = -1}); }),
            "generate: max_new_tokens is -1, and context 0");
  const auto last = [](const Tensor& tokens) { return counting(tokens).select(1, 0); };
  EXPECT_EQ(message_of([&] { generate(last, {1}); }),
            "generate: for the tokens int64[1, 1] the model gave float32[1, 10]");
}

}  // namespace
}  // namespace muster::inline v0_1::applications
