#include "muster/layers/recurrent_cell.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "muster/layers/dense.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/masking.h"
#include "muster/layers/recurrent.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

constexpr int64_t kCellUnits = 5;

// A layer, and RNN() of its cell; they have one name, and so the same initial values.
struct LayerAndCell {
  Layer layer;
  Layer cell;
};

template <typename LayerOptions, typename CellOptions>
LayerAndCell pair_of(Layer (*layer)(int64_t, LayerOptions), Layer (*cell)(int64_t, CellOptions),
                     double dropout, const std::string& name) {
  LayerOptions options;
  options.dropout = dropout;
  options.recurrent_dropout = dropout / 2;
  options.return_sequences = options.return_state = true;
  options.name = name;
  CellOptions of_cell;
  of_cell.dropout = dropout;
  of_cell.recurrent_dropout = dropout / 2;
  of_cell.name = name;
  return {layer(kCellUnits, options), cell(kCellUnits, of_cell)};
}

std::vector<LayerAndCell> built_in_pairs(double dropout = 0) {
  return {pair_of(SimpleRNN, SimpleRNNCell, dropout, "one"),
          pair_of(LSTM, LSTMCell, dropout, "two"), pair_of(GRU, GRUCell, dropout, "three")};
}

LayerInputs masked_input() {
  return {.tensors = {numbers({3, 6, 4})}, .masks = {sequence_mask(torch::tensor({6, 2, 4}))}};
}

TEST(RNN, OfABuiltInCellIsTheLayer) {
  for (const double dropout : {0.0, 0.4}) {
    for (const LayerAndCell& each : built_in_pairs(dropout)) {
      Fixture one, other;
      one.context.begin_step(true, 3, 0);
      other.context.begin_step(true, 3, 0);
      const LayerOutputs expected = each.layer(masked_input(), one.context);
      const LayerOutputs found = RNN(each.cell, {.return_sequences = true, .return_state = true})(
          masked_input(), other.context);
      ASSERT_EQ(one.store.names(), other.store.names());
      EXPECT_TRUE(found.tensors[0].equal(expected.tensors[0]));
      ASSERT_EQ(found.state.size(), expected.state.size());
      for (size_t i = 0; i < found.state.size(); ++i)
        EXPECT_TRUE(found.state[i].equal(expected.state[i]));
      EXPECT_TRUE(found.masks[0].equal(expected.masks[0]));
    }
  }
}

TEST(RNNCell, IsALayerOfOneStep) {
  for (const LayerAndCell& each : built_in_pairs()) {
    Fixture one, other;
    const Tensor x = numbers({3, 6, 4});
    const LayerOutputs expected = each.layer({.tensors = {x}}, one.context);
    std::vector<Tensor> state;
    for (int64_t t = 0; t < 6; ++t) {
      const LayerOutputs step =
          each.cell({.tensors = {x.select(1, t)}, .state = state}, other.context);
      EXPECT_TRUE(torch::allclose(step.tensors[0], expected.tensors[0].select(1, t), 1e-12, 1e-12));
      state = step.state;
    }
    for (size_t i = 0; i < state.size(); ++i)
      EXPECT_TRUE(torch::allclose(state[i], expected.state[i], 1e-12, 1e-12));
  }
}

TEST(StackedRNNCells, AreTheLayersOneAfterAnother) {
  for (const double dropout : {0.0, 0.4}) {
    Fixture one, other;
    one.context.begin_step(true, 3, 0);
    other.context.begin_step(true, 3, 0);
    std::vector<Layer> cells;
    std::vector<Tensor> state;
    LayerInputs next = masked_input();
    for (const LayerAndCell& each : built_in_pairs(dropout)) {
      cells.push_back(each.cell);
      LayerOutputs outputs = each.layer(next, one.context);
      state.insert(state.end(), outputs.state.begin(), outputs.state.end());
      next = {.tensors = outputs.tensors, .masks = outputs.masks};
    }
    const Layer stack =
        RNN(StackedRNNCells(cells), {.return_sequences = true, .return_state = true});
    const LayerOutputs found = stack(masked_input(), other.context);
    EXPECT_EQ(one.store.names(), other.store.names());
    EXPECT_TRUE(torch::allclose(found.tensors[0], next.tensors[0], 1e-11, 1e-11));
    ASSERT_EQ(found.state.size(), 4u);  // an LSTM has two
    for (size_t i = 0; i < state.size(); ++i)
      EXPECT_TRUE(torch::allclose(found.state[i], state[i], 1e-11, 1e-11)) << i;
    LayerInputs again = masked_input();
    again.state = found.state;
    EXPECT_EQ(stack(again, other.context).state.size(), 4u);
  }
}

// Halves its state and adds its input times a weight; the output is the negative of the new state.
class HalvingCell final : public RNNCellImpl {
 public:
  HalvingCell() : RNNCellImpl("halving_cell", "") {}

  std::vector<int64_t> state_sizes() const override { return {2}; }

  Step begin(const Tensor&, CallContext& context) const override {
    const Tensor weight = context.variable(identity(), 0, [] {
      return VariableSpec{.name = "weight",
                          .shape = {},
                          .dtype = kFloat64,
                          .initializer = initializers::constant(3)};
    });
    return [weight](const Tensor& input, const std::vector<Tensor>& state) -> Result {
      const Tensor sum = state[0] / 2 + input * weight;
      return {.output = -sum, .state = {sum}};
    };
  }
};

// Returns another state than it takes.
class WrongCell final : public RNNCellImpl {
 public:
  WrongCell() : RNNCellImpl("wrong_cell", "") {}

  std::vector<int64_t> state_sizes() const override { return {2}; }

  Step begin(const Tensor&, CallContext&) const override {
    return [](const Tensor& input, const std::vector<Tensor>& state) -> Result {
      return {.output = input, .state = {state[0], state[0]}};
    };
  }
};

Layer halving(RNNOptions options) {
  return RNN(Layer(std::make_shared<HalvingCell>()), std::move(options));
}

TEST(RNN, CallsACellOfOnesOwnForEachStep) {
  const Tensor x = numbers({3, 4, 2});
  Tensor sum = torch::zeros({3, 2}, kFloat64), sums = torch::zeros({3, 4, 2}, kFloat64);
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t s = 0; s <= t; ++s)
      sums.select(1, t).add_(3 * std::pow(0.5, t - s) * x.select(1, s));
  }
  Fixture fixture;
  const Layer layer = halving({.return_sequences = true, .return_state = true});
  const LayerOutputs outputs = layer({.tensors = {x}}, fixture.context);
  EXPECT_TRUE(torch::allclose(outputs.tensors[0], -sums, 1e-12, 1e-12));
  EXPECT_TRUE(torch::allclose(outputs.state[0], sums.select(1, 3), 1e-12, 1e-12));
  outputs.tensors[0].sum().backward();
  EXPECT_NEAR(fixture.store.value("halving_cell/weight").grad().item<double>(),
              -sums.sum().item<double>() / 3, 1e-12);

  const Tensor turned = halving({.go_backwards = true})(x.flip(1), fixture.context);
  EXPECT_TRUE(torch::allclose(turned, -sums.select(1, 3), 1e-12, 1e-12));
  const Tensor major =
      halving({.return_sequences = true, .time_major = true})(x.transpose(0, 1), fixture.context);
  EXPECT_TRUE(torch::allclose(major, -sums.transpose(0, 1), 1e-12, 1e-12));
}

TEST(RNN, RepeatsTheOutputOverStepsThatDoNotCount) {
  const Tensor x = numbers({1, 4, 2});
  const Tensor mask = torch::tensor({{0, 1, 0, 1}}).to(at::kBool);
  const Tensor first = -3 * x[0][1], second = first / 2 - 3 * x[0][3];
  const Tensor nothing = torch::zeros({2}, kFloat64);
  for (const bool zero : {false, true}) {
    Fixture fixture;
    const Tensor y = halving({.return_sequences = true, .zero_output_for_mask = zero})(
                         {.tensors = {x}, .masks = {mask}}, fixture.context)
                         .tensors[0];
    const Tensor expected = at::stack({nothing, first, zero ? nothing : first, second});
    EXPECT_TRUE(torch::allclose(y[0], expected, 1e-12, 1e-12));
    // A state of its own shows in no output before the first step that counts.
    const Tensor state = numbers({1, 2}, 1.1);
    const LayerOutputs begun = halving({.return_sequences = true})(
        {.tensors = {x}, .masks = {mask}, .state = {state}}, fixture.context);
    EXPECT_TRUE(begun.tensors[0][0][0].equal(nothing));
    EXPECT_TRUE(torch::allclose(begun.tensors[0][0][1], first - state[0] / 2, 1e-12, 1e-12));
  }
}

TEST(RNN, RefusesWhatIsNoCell) {
  EXPECT_EQ(message_of([] { RNN(Dense(3)); }), "RNN: cell is a layer \"dense\"");
  EXPECT_EQ(message_of([] {
              StackedRNNCells({LSTMCell(3), LSTM(3)});
            }),
            "StackedRNNCells: cell is a layer \"lstm\"");
  EXPECT_EQ(message_of([] { StackedRNNCells({}); }), "StackedRNNCells: cells is an empty list");
  EXPECT_EQ(message_of([] { LSTMCell(0); }), "LSTMCell: units is 0");
  EXPECT_EQ(message_of([] { GRUCell(2, {.dropout = 1}); }), "GRUCell: dropout is 1");
  Fixture fixture;
  const Tensor x = numbers({2, 4, 3});
  EXPECT_EQ(message_of([&] { LSTMCell(3)(x, fixture.context); }),
            "layer lstm_cell: expected [batch, features], was given float64[2, 4, 3]");
  const Layer wrong = RNN(Layer(std::make_shared<WrongCell>()));
  EXPECT_EQ(message_of([&] { wrong(x.slice(2, 0, 2), fixture.context); }),
            "layer wrong_cell: expected a state of 1 tensor, was given 2");
  EXPECT_EQ(message_of([&] { halving({.time_major = true})(x[0], fixture.context); }),
            "layer rnn_1: expected [steps, batch, features] with at least one step, was given "
            "float64[4, 3]");
}

}  // namespace
}  // namespace muster::inline v0_1
