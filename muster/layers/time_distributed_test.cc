#include "muster/layers/time_distributed.h"

#include <gtest/gtest.h>

#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
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
  EXPECT_EQ(message_of([&] {
              TimeDistributed(Dense(2))(numbers({2, 3}), fixture.context);
            }),
            "layer dense: expected [batch, features], was given float64[6]; which layer "
            "time_distributed_1 made of the steps of float64[2, 3]");
}

}  // namespace
}  // namespace muster::inline v0_1
