#include "muster/layers/bidirectional.h"

#include <gtest/gtest.h>

#include <vector>

#include "muster/layers/internal/test_layers.h"
#include "muster/layers/masking.h"
#include "muster/layers/recurrent.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

// Copies the weights of one direction into a separate layer.
void copy_weights(const Fixture& from, const std::string& direction, const Fixture& to,
                  const std::string& layer) {
  torch::NoGradGuard no_grad;
  for (const char* name : {"kernel", "recurrent_kernel", "bias"}) {
    to.store.value(layer + "/" + name).copy_(from.store.value(direction + "/" + name));
  }
}

TEST(Bidirectional, JoinsTwoLayersThatReadBothWays) {
  const Tensor x = numbers({3, 5, 4});
  for (const bool return_sequences : {true, false}) {
    Fixture fixture, alone;
    const LSTMOptions options{.return_sequences = return_sequences, .return_state = true};
    const auto both = [&](MergeMode mode) {
      return Bidirectional(LSTM(6, options), {.merge_mode = mode});
    };
    const LayerOutputs concat = both(MergeMode::kConcat)({.tensors = {x}}, fixture.context);
    LSTMOptions back = options;
    back.go_backwards = true;
    const Layer first = LSTM(6, options), second = LSTM(6, back);
    first(x, alone.context);
    second(x, alone.context);
    copy_weights(fixture, "bidirectional/forward_lstm", alone, "lstm");
    copy_weights(fixture, "bidirectional/backward_lstm", alone, "lstm_1");
    const LayerOutputs there = first({.tensors = {x}}, alone.context);
    const LayerOutputs reversed = second({.tensors = {x}}, alone.context);
    const Tensor a = there.tensors[0];
    const Tensor b = return_sequences ? reversed.tensors[0].flip(1) : reversed.tensors[0];
    EXPECT_FALSE(a.equal(b));
    EXPECT_TRUE(concat.tensors[0].equal(at::cat({a, b}, -1)));
    ASSERT_EQ(concat.state.size(), 4u);
    EXPECT_TRUE(concat.state[1].equal(there.state[1]));
    EXPECT_TRUE(concat.state[2].equal(reversed.state[0]));

    const std::vector<std::pair<MergeMode, Tensor>> modes = {
        {MergeMode::kSum, a + b}, {MergeMode::kMul, a * b}, {MergeMode::kAve, (a + b) / 2}};
    for (const auto& [mode, expected] : modes) {
      Fixture own;
      const Layer layer = both(mode);
      layer({.tensors = {x}}, own.context);
      copy_weights(fixture, "bidirectional/forward_lstm", own, "bidirectional/forward_lstm");
      copy_weights(fixture, "bidirectional/backward_lstm", own, "bidirectional/backward_lstm");
      EXPECT_TRUE(layer({.tensors = {x}}, own.context).tensors[0].equal(expected));
    }
    Fixture own;
    EXPECT_EQ(both(MergeMode::kNone)({.tensors = {x}}, own.context).tensors.size(), 2u);
  }
}

TEST(Bidirectional, GivesPaddedExamplesWhatEachGivesAlone) {
  const Tensor x = numbers({2, 5, 4});
  const std::vector<int64_t> lengths = {3, 5};
  const Tensor mask = sequence_mask(torch::tensor(lengths));
  for (const bool return_sequences : {true, false}) {
    Fixture fixture;
    const Layer layer = Bidirectional(GRU(6, {.return_sequences = return_sequences}));
    const LayerOutputs all = layer({.tensors = {x}, .masks = {mask}}, fixture.context);
    EXPECT_EQ(all.masks.size(), return_sequences ? 1u : 0u);
    for (int64_t b = 0; b < 2; ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)];
      const Tensor alone = layer(x.slice(0, b, b + 1).slice(1, 0, length), fixture.context)[0];
      Tensor given = all.tensors[0][b];
      if (return_sequences) {
        EXPECT_TRUE(given.slice(0, length).eq(0).all().item<bool>());
        given = given.slice(0, 0, length);
      }
      EXPECT_TRUE(torch::allclose(given, alone, 1e-12, 1e-12));
    }
  }
}

TEST(Bidirectional, TakesStepsAsTheFirstAxis) {
  const Tensor x = numbers({3, 5, 4});
  for (const bool return_sequences : {true, false}) {
    Fixture one, other;
    const Tensor expected =
        Bidirectional(GRU(6, {.return_sequences = return_sequences}))(x, one.context);
    const Tensor found =
        Bidirectional(GRU(6, {.return_sequences = return_sequences, .time_major = true}))(
            x.transpose(0, 1), other.context);
    EXPECT_TRUE(found.equal(return_sequences ? expected.transpose(0, 1) : expected));
  }
}

TEST(Bidirectional, TakesAStateOfBoth) {
  Fixture fixture;
  const Tensor x = numbers({2, 5, 4});
  const Layer layer = Bidirectional(GRU(6, {.return_state = true}));
  const LayerOutputs once = layer({.tensors = {x}}, fixture.context);
  const LayerOutputs twice = layer({.tensors = {x}, .state = once.state}, fixture.context);
  EXPECT_FALSE(twice.state[0].equal(once.state[0]));
  EXPECT_EQ(message_of([&] { layer({.tensors = {x}, .state = {once.state[0]}}, fixture.context); }),
            "layer bidirectional: expected a state of 2 tensors, was given 1");
}

TEST(Bidirectional, RefusesLayersThatDoNotFit) {
  EXPECT_EQ(message_of([] { Bidirectional(Masking(), {.name = "both"}); }),
            "Bidirectional \"both\": layer is a layer \"masking\"");
  EXPECT_EQ(message_of([] { Bidirectional(Masking()); }),
            "Bidirectional: layer is a layer \"masking\"");
  EXPECT_EQ(message_of([] { Bidirectional(GRU(3), {.backward_layer = GRU(3)}); }),
            "Bidirectional: go_backwards is false in layer, and false in backward_layer");
  EXPECT_EQ(message_of([] {
              Bidirectional(GRU(3), {.merge_mode = MergeMode::kSum,
                                     .backward_layer = LSTM(4, {.go_backwards = true})});
            }),
            "Bidirectional: units is 3 in layer, and 4 in backward_layer");
  EXPECT_EQ(message_of([] {
              Bidirectional(GRU(3, {.time_major = true}),
                            {.backward_layer = GRU(3, {.go_backwards = true})});
            }),
            "Bidirectional: time_major is true in layer, and false in backward_layer");
  Fixture fixture;
  const Layer mixed =
      Bidirectional(GRU(3, {.name = "there"}), {.backward_layer = LSTM(4, {.go_backwards = true})});
  EXPECT_EQ(mixed(numbers({2, 5, 4}), fixture.context).sizes(), (Shape{2, 7}));
  EXPECT_EQ(fixture.store.names()[0], "bidirectional/forward_there/kernel");
  EXPECT_EQ(fixture.store.names()[3], "bidirectional/backward_lstm/kernel");
}

}  // namespace
}  // namespace muster::inline v0_1
