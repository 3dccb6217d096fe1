#include "muster/layers/time_distributed.h"

#include <gtest/gtest.h>

#include "muster/layers/convolution.h"
#include "muster/layers/core.h"
#include "muster/layers/embedding.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/masking.h"
#include "muster/layers/recurrent.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

TEST(TimeDistributed, CallsItsLayerOnEveryStep) {
  Fixture fixture;
  const Tensor images = numbers({2, 3, 6, 5, 2});
  const Layer conv = Conv2D(4, 3);
  const Tensor y = TimeDistributed(conv)(images, fixture.context);
  ASSERT_EQ(y.sizes(), (Shape{2, 3, 4, 3, 4}));
  for (int64_t t = 0; t < 3; ++t) {
    EXPECT_TRUE(torch::allclose(y.select(1, t), conv(images.select(1, t), fixture.context)));
  }
  EXPECT_NE(fixture.store.find("conv2d/kernel"), nullptr);
}

TEST(TimeDistributed, TakesTheMaskOfStepsAndOfWhatIsInThem) {
  Fixture fixture;
  const Tensor x = numbers({2, 3, 4, 5});
  const Tensor steps = sequence_mask(torch::tensor({3, 1}));
  const LayerOutputs dense =
      TimeDistributed(Dense(2))({.tensors = {x}, .masks = {steps}}, fixture.context);
  EXPECT_TRUE(dense.masks[0].equal(steps));
  const Tensor words = sequence_mask(torch::tensor({4, 2, 0, 1, 3, 0})).view({2, 3, 4});
  const Layer sentence = GRU(6);
  const LayerOutputs sentences =
      TimeDistributed(sentence)({.tensors = {x}, .masks = {words}}, fixture.context);
  const LayerOutputs flat =
      sentence({.tensors = {x.flatten(0, 1)}, .masks = {words.flatten(0, 1)}}, fixture.context);
  EXPECT_TRUE(sentences.tensors[0].flatten(0, 1).equal(flat.tensors[0]));
  EXPECT_TRUE(sentences.masks[0].equal(torch::tensor({{1, 1, 0}, {1, 1, 0}}).to(at::kBool)));
}

TEST(TimeDistributed, RefusesWhatHasNoSteps) {
  Fixture fixture;
  EXPECT_EQ(message_of([&] { TimeDistributed(Dense(2))(numbers({3}), fixture.context); }),
            "layer time_distributed: expected [batch, steps, ...], was given float64[3]");
}

TEST(Masking, MasksStepsThatAreOneValue) {
  Fixture fixture;
  const Tensor x = torch::tensor({{{1., 2.}, {7., 7.}}, {{7., 0.}, {3., 4.}}});
  const LayerOutputs outputs = Masking(7)({.tensors = {x}}, fixture.context);
  EXPECT_TRUE(outputs.masks[0].equal(torch::tensor({{1, 0}, {1, 1}}).to(at::kBool)));
  EXPECT_TRUE(
      outputs.tensors[0].equal(torch::tensor({{{1., 2.}, {0., 0.}}, {{7., 0.}, {3., 4.}}})));
  const LayerOutputs both = Masking(7)(
      {.tensors = {x}, .masks = {torch::tensor({{1, 1}, {0, 1}}).to(at::kBool)}}, fixture.context);
  EXPECT_TRUE(both.masks[0].equal(torch::tensor({{1, 0}, {0, 1}}).to(at::kBool)));
  // What is masked may be no number at all.
  EXPECT_TRUE(Masking()(torch::zeros({1, 2, 3}), fixture.context).eq(0).all().item<bool>());
}

TEST(SequenceMask, CountsTheFirstSteps) {
  EXPECT_TRUE(sequence_mask(torch::tensor({2, 0, 3}))
                  .equal(torch::tensor({{1, 1, 0}, {0, 0, 0}, {1, 1, 1}}).to(at::kBool)));
  EXPECT_TRUE(sequence_mask(torch::tensor({1, 3}, at::kInt), 2)
                  .equal(torch::tensor({{1, 0}, {1, 1}}).to(at::kBool)));
  EXPECT_EQ(sequence_mask(torch::zeros({0}, at::kLong)).sizes(), (Shape{0, 0}));
  EXPECT_EQ(message_of([] { sequence_mask(torch::tensor({1.5})); }),
            "sequence_mask: lengths is float32[1]");
  EXPECT_EQ(message_of([] {
              sequence_mask(torch::tensor({1, -2}));
            }),
            "sequence_mask: a length is -2");
}

TEST(Embedding, MasksTheIdZero) {
  Fixture fixture;
  const Tensor ids = torch::tensor({{1, 2, 0}, {3, 0, 0}});
  const LayerOutputs words =
      Embedding(5, 3, {.mask_zero = true})({.tensors = {ids}}, fixture.context);
  EXPECT_TRUE(words.masks[0].equal(ids.ne(0)));
  EXPECT_EQ(words.tensors[0].sizes(), (Shape{2, 3, 3}));
  EXPECT_TRUE(Embedding(5, 3)({.tensors = {ids}}, fixture.context).masks.empty());
  // The mask goes on to the layer that uses it up.
  const Layer embedding = Embedding(5, 3, {.mask_zero = true, .dtype = kFloat64}), lstm = LSTM(4);
  const Tensor y = Sequential({embedding, Dropout(0.5), lstm})(ids, fixture.context);
  const Tensor alone =
      Sequential({embedding, lstm})(ids.slice(0, 1).slice(1, 0, 1), fixture.context);
  EXPECT_TRUE(torch::allclose(y[1], alone[0], 1e-12, 1e-12));
}

}  // namespace
}  // namespace muster::inline v0_1
