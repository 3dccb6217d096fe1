// Recurrent layers that keep their state from one batch to the next.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "muster/layers/bidirectional.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/recompute.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/recurrent_cell.h"
#include "muster/layers/sequential.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

std::vector<Layer> stateful_layers(bool stateful) {
  const Layer cells = StackedRNNCells({GRUCell(3), LSTMCell(2)});
  return {SimpleRNN(3, {.return_sequences = true, .stateful = stateful}),
          LSTM(3, {.return_sequences = true, .stateful = stateful}),
          GRU(3, {.return_sequences = true, .stateful = stateful}),
          RNN(cells, {.return_sequences = true, .stateful = stateful}),
          RNN(LSTMCell(3), {.return_sequences = true, .stateful = stateful})};
}

TEST(Stateful, ContinuesWhereTheBatchBeforeEnded) {
  const Tensor x = numbers({2, 12, 4});
  const std::vector<Layer> keep = stateful_layers(true), forget = stateful_layers(false);
  for (size_t i = 0; i < keep.size(); ++i) {
    Fixture whole, parts;
    const Tensor expected = forget[i](x, whole.context);
    std::vector<Tensor> found;
    for (int64_t step = 0; step < 3; ++step) {
      parts.context.begin_step(true, step, 0);
      found.push_back(keep[i](x.slice(1, 4 * step, 4 * step + 4), parts.context));
      // Gradients end where the batch begins: the gradients of the batch before are gone by now.
      found.back().sum().backward();
    }
    EXPECT_TRUE(torch::allclose(at::cat(found, 1), expected, 1e-12, 1e-12)) << i;

    parts.context.reset_states();
    const Tensor anew = keep[i](x.slice(1, 0, 4), parts.context);
    EXPECT_TRUE(torch::allclose(anew, expected.slice(1, 0, 4), 1e-12, 1e-12)) << i;
  }
}

TEST(Stateful, KeepsItsStateInVariables) {
  Fixture fixture;
  fixture.context.begin_step(true, 0, 0);
  const Tensor x = numbers({2, 3, 4});
  const LayerOutputs outputs =
      LSTM(3, {.return_state = true, .stateful = true})({.tensors = {x}}, fixture.context);
  EXPECT_TRUE(fixture.store.value("lstm/state_0").equal(outputs.state[0]));
  EXPECT_TRUE(fixture.store.value("lstm/state_1").equal(outputs.state[1]));
  Bidirectional(GRU(3, {.stateful = true}))(x, fixture.context);
  const VariableSpec& spec = fixture.store.find("bidirectional/backward_gru/state_0")->spec();
  EXPECT_EQ(spec.shape, (Shape{2, 3}));
  EXPECT_EQ(spec.aggregation, VariableAggregation::kConcat);
  RNN(LSTMCell(3), {.stateful = true, .name = "reader"})(x, fixture.context);
  EXPECT_NE(fixture.store.find("reader/state_1"), nullptr);
  EXPECT_EQ(fixture.store.find("lstm_cell/state_1"), nullptr);
}

TEST(Stateful, BeginsWithTheStateItIsGiven) {
  Fixture fixture, other;
  fixture.context.begin_step(true, 0, 0);
  const Tensor x = numbers({2, 3, 4}), state = numbers({2, 3}, 0.7);
  const Layer layer = GRU(3, {.stateful = true}), plain = GRU(3, {.return_state = true});
  layer(x, fixture.context);
  const LayerInputs inputs{.tensors = {x}, .state = {state}};
  const LayerOutputs expected = plain(inputs, other.context);
  EXPECT_TRUE(layer(inputs, fixture.context).tensors[0].equal(expected.tensors[0]));
  EXPECT_TRUE(fixture.store.value("gru/state_0").equal(expected.state[0]));
}

// The kept state is not an output of a step that does not count.
TEST(Stateful, GivesZeroBeforeTheFirstStepThatCounts) {
  Fixture fixture;
  fixture.context.begin_step(true, 0, 0);
  const Layer layer = LSTM(3, {.return_sequences = true, .stateful = true});
  const Tensor x = numbers({2, 3, 4});
  layer(x, fixture.context);
  const Tensor kept = fixture.store.value("lstm/state_0").clone();
  const Tensor mask = torch::tensor({{0, 1, 1}, {0, 0, 0}}).to(at::kBool);
  const Tensor y = layer({.tensors = {x}, .masks = {mask}}, fixture.context).tensors[0];
  EXPECT_TRUE(y[0][0].eq(0).all().item<bool>());
  EXPECT_FALSE(y[0][1].eq(0).any().item<bool>());
  EXPECT_TRUE(y[1].eq(0).all().item<bool>());
  EXPECT_TRUE(fixture.store.value("lstm/state_0")[1].equal(kept[1]));
}

TEST(Stateful, BeginsWithZeroOutsideOfTraining) {
  Fixture fixture, other;
  const Tensor x = numbers({2, 3, 4});
  const Layer layer = LSTM(3, {.stateful = true});
  fixture.context.begin_step(true, 0, 0);
  layer(x, fixture.context);
  const Tensor kept = fixture.store.value("lstm/state_0").clone();
  fixture.context.begin_step(false, 1, 0);
  const Tensor longer = numbers({5, 3, 4}, 0.9);
  const Tensor expected = LSTM(3)(longer, other.context);
  EXPECT_TRUE(layer(longer, fixture.context).equal(expected));
  EXPECT_TRUE(fixture.store.value("lstm/state_0").equal(kept));
}

TEST(Stateful, TakesBatchesOfAsManyRows) {
  Fixture fixture;
  fixture.context.begin_step(true, 0, 0);
  const Layer layer = SimpleRNN(3, {.stateful = true});
  const Tensor x = numbers({2, 3, 4});
  EXPECT_EQ(message_of([&] { layer(x.slice(0, 0, 0), fixture.context); }),
            "layer simple_rnn: stateful is true, and its first batch has no rows");
  layer(x, fixture.context);
  const Tensor kept = fixture.store.value("simple_rnn/state_0").clone();
  EXPECT_EQ(layer(x.slice(0, 0, 0), fixture.context).sizes(), (Shape{0, 3}));
  EXPECT_TRUE(fixture.store.value("simple_rnn/state_0").equal(kept));
  EXPECT_EQ(message_of([&] { layer(x.slice(0, 0, 1), fixture.context); }),
            "layer simple_rnn: stateful is true, and a batch of 1 rows follows batches of 2");
}

// The second call of a block begins with the state of its first one, and keeps nothing.
TEST(Stateful, KeepsItsStateOnceWhereItIsRecomputed) {
  Fixture fixtures[2];
  for (const int recomputes : {0, 1}) {
    const Layer block = Sequential(
        {LSTM(3, {.return_sequences = true, .stateful = true}), GRU(2, {.stateful = true})});
    const Layer model = recomputes ? Recompute(block) : block;
    for (int64_t step = 0; step < 3; ++step) {
      fixtures[recomputes].context.begin_step(true, step, 0);
      const Tensor x = numbers({2, 3, 4}, 0.1 * static_cast<double>(step));
      model(x, fixtures[recomputes].context).square().sum().backward();
    }
  }
  for (const std::string& name : fixtures[0].store.names()) {
    const Tensor &one = fixtures[0].store.value(name), &other = fixtures[1].store.value(name);
    EXPECT_TRUE(one.equal(other)) << name;
    if (one.grad().defined()) {
      EXPECT_TRUE(one.grad().equal(other.grad())) << name;
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1
