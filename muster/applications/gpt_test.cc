#include "muster/applications/gpt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/applications/byte_tokenizer.h"
#include "muster/applications/generate.h"
#include "muster/applications/internal/test_store.h"
#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::applications {
namespace {

using testing::ModelRun;
using testing::Training;

const GPTOptions kSmall{.context = 16, .layers = 2, .heads = 2, .width = 32};

TEST(GPT, HasGpt2sCounts) {
  const GPTOptions smallest{
      .vocabulary_size = 50257, .context = 1024, .layers = 12, .heads = 12, .width = 768};
  EXPECT_EQ(GPT(smallest).count_params(), 124'439'808);
  const Functional model = GPT(kSmall);
  EXPECT_EQ(model.outputs().at(0).shape(), (Shape{-1, -1, 256}));
  EXPECT_EQ(GPT({.include_top = false}).outputs().at(0).shape(), (Shape{-1, -1, 384}));
  EXPECT_EQ(model.layers().front().impl().identity().given_name, "token_embedding");
}

TEST(GPT, SeesWhatWasBeforeAlone) {
  ModelRun run(GPT(kSmall));
  const Tensor tokens = torch::arange(12).view({1, 12});
  Tensor other = tokens.clone();
  other.slice(1, 7).add_(50);
  const Tensor a = run(tokens), b = run(other);
  EXPECT_TRUE(torch::allclose(a.slice(1, 0, 7), b.slice(1, 0, 7), 1e-5, 1e-6));
  EXPECT_FALSE(torch::allclose(a.slice(1, 7), b.slice(1, 7), 1e-3, 1e-4));
  // A shorter beginning has the same logits.
  EXPECT_TRUE(torch::allclose(a.slice(1, 0, 5), run(tokens.slice(1, 0, 5)), 1e-5, 1e-6));
}

TEST(GPT, HasOneTableForBothEnds) {
  ModelRun run(GPT(kSmall));
  run(torch::zeros({1, 1}, at::kLong));
  int64_t tables = 0;
  for (const auto& variable : run.store.variables()) tables += variable->value().size(0) == 256;
  EXPECT_EQ(tables, 1);
  EXPECT_EQ(run.store.variables().front()->name(), "token_embedding/embeddings");
}

TEST(GPT, LearnsATextByHeart) {
  const ByteTokenizer tokenizer;
  const std::vector<int64_t> text = tokenizer.encode("to be, or not to");
  const Tensor tokens = torch::tensor(text, at::kLong).unsqueeze(0);
  Training training(GPT(kSmall));
  double loss = 0;
  for (int i = 0; i < 120; ++i) {
    loss = training.step(tokens.slice(1, 0, 15), tokens.slice(1, 1), 0.3);
    if (i == 0) {
      EXPECT_NEAR(loss, std::log(256), 0.5);
    }
  }
  EXPECT_LT(loss, 0.1);
  const std::vector<int64_t> said =
      generate([&](const Tensor& given) { return training(given); }, tokenizer.encode("to b"),
               {.max_new_tokens = 12, .context = 16, .temperature = 0});
  EXPECT_EQ(tokenizer.decode(said), "to be, or not to");
}

TEST(GPT, Refuses) {
  EXPECT_EQ(message_of([] { GPT({.heads = 5}); }), "GPT: width is 384, and heads 5");
  EXPECT_EQ(message_of([] { GPT({.context = 0}); }), "GPT: context is 0");
  EXPECT_EQ(message_of([] { GPT({.dropout = 1}); }), "GPT: dropout is 1");
  ModelRun run(GPT(kSmall));
  EXPECT_EQ(message_of([&] {
              run(torch::zeros({1, 17}, at::kLong));
            }),
            "layer position_embedding: expected at most 16 steps, was given float32[1, 17, 32]");
  EXPECT_THAT(message_of([&] {
                run(torch::full({1, 2}, 256, at::kLong));
              }),
              ::testing::HasSubstr("the id 256 at [0, 0]"));
}

}  // namespace
}  // namespace muster::inline v0_1::applications
