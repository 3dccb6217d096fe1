#include "muster/layers/masking.h"

#include <gtest/gtest.h>

#include <cmath>

#include "muster/layers/batch_normalization.h"
#include "muster/layers/constraints.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/embedding.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/lambda.h"
#include "muster/layers/layer_normalization.h"
#include "muster/layers/padding.h"
#include "muster/layers/pooling.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/regularizers.h"
#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"
#include "muster/layers/upsampling.h"
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
  // A step that does not count becomes 0, even if it is NaN.
  const LayerOutputs nan = Masking()({.tensors = {torch::full({1, 2, 3}, std::nan(""))},
                                      .masks = {torch::tensor({{1, 0}}).to(at::kBool)}},
                                     fixture.context);
  EXPECT_TRUE(nan.tensors[0][0][0].isnan().all().item<bool>());
  EXPECT_TRUE(nan.tensors[0][0][1].eq(0).all().item<bool>());
}

TEST(RemoveMask, GivesItsInputWithoutTheMask) {
  Fixture fixture;
  const Tensor x = numbers({2, 3, 4}), mask = torch::tensor({{1, 1, 0}, {1, 0, 0}}).to(at::kBool);
  const LayerOutputs outputs = RemoveMask()({.tensors = {x}, .masks = {mask}}, fixture.context);
  EXPECT_TRUE(outputs.masks.empty());
  EXPECT_TRUE(outputs.tensors[0].is_same(x));
  EXPECT_TRUE(RemoveMask()(x, fixture.context).is_same(x));
  EXPECT_EQ(message_of([&] {
              RemoveMask()(LayerInputs{.tensors = {x, x}}, fixture.context);
            }),
            "layer remove_mask_2: expected one tensor, was given 2");
}

// A convolution treats padding like any other step.
Layer classifier_of_sentences() {
  return Sequential({Embedding(1000, 16, {.mask_zero = true}), RemoveMask(), Conv1D(8, 5),
                     GlobalMaxPooling1D(), Dense(1)});
}

TEST(RemoveMask, StandsInASequential) {
  Fixture fixture;
  EXPECT_EQ(classifier_of_sentences()(torch::zeros({2, 7}, at::kLong), fixture.context).sizes(),
            (Shape{2, 1}));
}

// A Keras program does this silently; here it is an error, which one more layer mends.
TEST(RemoveMask, MendsEveryLayerThatRefusesAMask) {
  const Tensor ids = torch::tensor({{1, 2, 0, 0}, {3, 0, 0, 0}});
  for (const Layer& layer : {Flatten(), Reshape({2, 6}), Permute({2, 1}), Conv1D(2, 2),
                             MaxPooling1D(), GlobalMaxPooling1D(), ZeroPadding1D(), UpSampling1D(),
                             Lambda([](const Tensor& x) { return x * 2; })}) {
    Fixture fixture;
    const Layer words = Embedding(5, 3, {.mask_zero = true});
    const Error error = error_of([&] { Sequential({words, layer})(ids, fixture.context); });
    EXPECT_TRUE(error.message().ends_with(": was given a mask, which it cannot take"))
        << error.message();
    EXPECT_TRUE(error.hint().starts_with("put RemoveMask() before it")) << error.hint();
    const LayerOutputs outputs =
        Sequential({words, RemoveMask(), layer})({.tensors = {ids}}, fixture.context);
    EXPECT_TRUE(outputs.masks.empty() || !outputs.masks[0].defined());
  }
}

// As in Keras, padding is in the statistics.
TEST(Masks, GoThroughNormalizations) {
  const Tensor x = numbers({2, 3, 4}), mask = torch::tensor({{1, 1, 0}, {1, 0, 0}}).to(at::kBool);
  for (const Layer& layer : {BatchNormalization(), GroupNormalization({.groups = 2}),
                             LayerNormalization({.axis = {1, 2}}), UnitNormalization({1})}) {
    Fixture fixture;
    const LayerOutputs outputs = layer({.tensors = {x}, .masks = {mask}}, fixture.context);
    EXPECT_TRUE(outputs.masks[0].is_same(mask));
    EXPECT_TRUE(outputs.tensors[0].equal(layer(x, fixture.context)));
  }
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
  // The mask is passed on to the layer that uses it up.
  const Layer embedding = Embedding(5, 3, {.mask_zero = true, .dtype = kFloat64}), lstm = LSTM(4);
  const Tensor y = Sequential({embedding, Dropout(0.5), lstm})(ids, fixture.context);
  const Tensor alone =
      Sequential({embedding, lstm})(ids.slice(0, 1).slice(1, 0, 1), fixture.context);
  EXPECT_TRUE(torch::allclose(y[1], alone[0], 1e-12, 1e-12));
}

TEST(Embedding, RefusesWhatIsOfTheWholeTableWhereItIsRowSparse) {
  const EmbeddingOptions penalized{.embeddings_regularizer = regularizers::l2(0.5),
                                   .name = "words"};
  const Error error = error_of([&] { Embedding(5, 3, penalized); });
  EXPECT_EQ(error.message(),
            "Embedding \"words\": embeddings_regularizer is l2(0.5), and row_sparse is true");
  EXPECT_TRUE(error.hint().find("give it {.row_sparse = false}") != std::string::npos)
      << error.hint();
  EXPECT_EQ(
      message_of([] { Embedding(5, 3, {.embeddings_constraint = constraints::max_norm(2)}); }),
      "Embedding: embeddings_constraint is max_norm(2, [0]), and row_sparse is true");
  EXPECT_NO_THROW(Embedding(5, 3, {.embeddings_constraint = constraints::max_norm(2, {1})}));
  EXPECT_NO_THROW(
      Embedding(5, 3, {.embeddings_regularizer = regularizers::l2(0.5), .row_sparse = false}));
}

}  // namespace
}  // namespace muster::inline v0_1
