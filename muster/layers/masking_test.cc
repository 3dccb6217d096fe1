#include "muster/layers/masking.h"

#include <gtest/gtest.h>

#include <cmath>

#include "muster/layers/core.h"
#include "muster/layers/embedding.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/recurrent.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

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
  // What does not count becomes 0, also where it is no number.
  const LayerOutputs nan = Masking()({.tensors = {torch::full({1, 2, 3}, std::nan(""))},
                                      .masks = {torch::tensor({{1, 0}}).to(at::kBool)}},
                                     fixture.context);
  EXPECT_TRUE(nan.tensors[0][0][0].isnan().all().item<bool>());
  EXPECT_TRUE(nan.tensors[0][0][1].eq(0).all().item<bool>());
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

TEST(Masking, RefusesAValueThatNothingEquals) {
  EXPECT_EQ(message_of([] { Masking(std::nan("")); }), "Masking: mask_value is nan");
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
