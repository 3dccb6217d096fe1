#include "muster/layers/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "muster/layers/internal/test_layers.h"
#include "muster/layers/masking.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;
using Numbers = std::vector<double>;
using Scalar = std::function<double(double)>;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double hyperbolic(double x) { return std::tanh(x); }

Numbers numbers_of(const Tensor& x) {
  const Tensor flat = x.detach().to(kFloat64).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

// x kernel + bias, in plain loops; `bias` may be empty.
Numbers affine(const Numbers& x, const Tensor& kernel, const Numbers& bias) {
  const Numbers k = numbers_of(kernel);
  const auto width = static_cast<size_t>(kernel.size(1));
  Numbers sums = bias.empty() ? Numbers(width, 0.0) : bias;
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < width; ++j) sums[j] += x[i] * k[i * width + j];
  }
  return sums;
}

// The weights of a layer that has been called once, as recurrent.h lays them out.
struct Weights {
  Weights(const Fixture& fixture, const std::string& layer)
      : kernel(fixture.store.value(layer + "/kernel")),
        recurrent(fixture.store.value(layer + "/recurrent_kernel")),
        bias(fixture.store.value(layer + "/bias")) {}
  Tensor kernel, recurrent, bias;
};

struct Step {
  Numbers h, c;
};

Step plain_simple(const Weights& w, const Numbers& x, const Step& before, const Scalar& act) {
  const Numbers sums = affine(before.h, w.recurrent, affine(x, w.kernel, numbers_of(w.bias)));
  Step step;
  for (const double sum : sums) step.h.push_back(act(sum));
  return step;
}

Step plain_lstm(const Weights& w, const Numbers& x, const Step& before, const Scalar& act,
                const Scalar& gate) {
  const Numbers sums = affine(before.h, w.recurrent, affine(x, w.kernel, numbers_of(w.bias)));
  const size_t u = before.h.size();
  Step step;
  for (size_t j = 0; j < u; ++j) {
    const double i = gate(sums[j]), f = gate(sums[u + j]), o = gate(sums[3 * u + j]);
    step.c.push_back(f * before.c[j] + i * act(sums[2 * u + j]));
    step.h.push_back(o * act(step.c[j]));
  }
  return step;
}

Step plain_gru(const Weights& w, const Numbers& x, const Step& before, const Scalar& act,
               const Scalar& gate, bool reset_after) {
  const size_t u = before.h.size();
  const auto U = static_cast<int64_t>(u);
  Step step;
  const Numbers input = affine(x, w.kernel, numbers_of(reset_after ? w.bias[0] : w.bias));
  const Numbers state =
      affine(before.h, w.recurrent, reset_after ? numbers_of(w.bias[1]) : Numbers());
  Numbers r(u), reset(u);
  for (size_t j = 0; j < u; ++j) {
    r[j] = gate(input[u + j] + state[u + j]);
    reset[j] = r[j] * before.h[j];
  }
  const Numbers last = affine(reset, w.recurrent.slice(1, 2 * U), {});
  for (size_t j = 0; j < u; ++j) {
    const double z = gate(input[j] + state[j]);
    const double h = act(input[2 * u + j] + (reset_after ? r[j] * state[2 * u + j] : last[j]));
    step.h.push_back(z * before.h[j] + (1 - z) * h);
  }
  return step;
}

constexpr int64_t kBatch = 3, kSteps = 5, kFeatures = 4, kUnits = 6;

// Compares a layer's output for each example and step with `step` in plain loops.
void expect_steps(const LayerOutputs& outputs, const Tensor& x, const std::vector<Tensor>& state,
                  const std::function<Step(const Numbers&, const Step&)>& step) {
  ASSERT_EQ(outputs.tensors[0].sizes(), (Shape{x.size(0), x.size(1), kUnits}));
  for (int64_t b = 0; b < x.size(0); ++b) {
    Step now{Numbers(kUnits, 0.0), Numbers(kUnits, 0.0)};
    if (!state.empty()) now.h = numbers_of(state[0][b]);
    if (state.size() > 1) now.c = numbers_of(state[1][b]);
    for (int64_t t = 0; t < x.size(1); ++t) {
      now = step(numbers_of(x[b][t]), now);
      const Numbers given = numbers_of(outputs.tensors[0][b][t]);
      for (size_t j = 0; j < given.size(); ++j) EXPECT_NEAR(given[j], now.h[j], 1e-12) << b << t;
    }
    const Numbers last = numbers_of(outputs.state[0][b]);
    for (size_t j = 0; j < last.size(); ++j) EXPECT_NEAR(last[j], now.h[j], 1e-12);
    if (outputs.state.size() < 2) continue;
    const Numbers cell = numbers_of(outputs.state[1][b]);
    for (size_t j = 0; j < cell.size(); ++j) EXPECT_NEAR(cell[j], now.c[j], 1e-12);
  }
}

const Initializer drawn_bias = initializers::random_uniform(-0.6, 0.6);

TEST(SimpleRNN, ComputesKerasFormula) {
  for (const bool with_state : {false, true}) {
    Fixture fixture;
    const Layer layer = SimpleRNN(
        kUnits, {.bias_initializer = drawn_bias, .return_sequences = true, .return_state = true});
    const Tensor x = numbers({kBatch, kSteps, kFeatures});
    LayerInputs inputs{.tensors = {x}};
    if (with_state) inputs.state = {numbers({kBatch, kUnits}, 2.1)};
    const LayerOutputs outputs = layer(inputs, fixture.context);
    const Weights w(fixture, "simple_rnn");
    expect_steps(outputs, x, inputs.state, [&](const Numbers& in, const Step& before) {
      return plain_simple(w, in, before, hyperbolic);
    });
  }
}

TEST(LSTM, ComputesKerasFormula) {
  const auto softsign = [](double x) { return x / (1 + std::abs(x)); };
  for (const bool usual : {true, false}) {
    for (const bool with_state : {false, true}) {
      Fixture fixture;
      LSTMOptions options{
          .bias_initializer = drawn_bias, .return_sequences = true, .return_state = true};
      // Other functions take another way through the code.
      if (!usual) options.activation = activations::softsign;
      const Tensor x = numbers({kBatch, kSteps, kFeatures});
      LayerInputs inputs{.tensors = {x}};
      if (with_state) {
        inputs.state = {numbers({kBatch, kUnits}, 2.1), numbers({kBatch, kUnits}, 0.2)};
      }
      const LayerOutputs outputs = LSTM(kUnits, options)(inputs, fixture.context);
      const Weights w(fixture, "lstm");
      expect_steps(outputs, x, inputs.state, [&](const Numbers& in, const Step& before) {
        return plain_lstm(w, in, before, usual ? Scalar(hyperbolic) : softsign, logistic);
      });
    }
  }
}

TEST(GRU, ComputesKerasFormula) {
  const auto hard = [](double x) { return std::min(1.0, std::max(0.0, 0.2 * x + 0.5)); };
  for (const bool reset_after : {true, false}) {
    for (const bool usual : {true, false}) {
      Fixture fixture;
      GRUOptions options{.bias_initializer = drawn_bias,
                         .return_sequences = true,
                         .return_state = true,
                         .reset_after = reset_after};
      if (!usual) options.recurrent_activation = activations::hard_sigmoid;
      const Tensor x = numbers({kBatch, kSteps, kFeatures});
      const LayerInputs inputs{.tensors = {x}, .state = {numbers({kBatch, kUnits}, 2.1)}};
      const LayerOutputs outputs = GRU(kUnits, options)(inputs, fixture.context);
      const Weights w(fixture, "gru");
      expect_steps(outputs, x, inputs.state, [&](const Numbers& in, const Step& before) {
        return plain_gru(w, in, before, hyperbolic, usual ? Scalar(logistic) : hard, reset_after);
      });
    }
  }
}

// LibTorch keeps kernels transposed, an LSTM's gates in the same order, and a GRU's as r, z, h.
TEST(Recurrent, ComputesWhatLibTorchDoes) {
  const Tensor x = numbers({kBatch, kSteps, kFeatures}).to(kFloat32);
  const Tensor zeros = torch::zeros({1, kBatch, kUnits});
  Fixture fixture;
  const Tensor y =
      LSTM(kUnits, {.bias_initializer = drawn_bias, .return_sequences = true})(x, fixture.context);
  const Weights w(fixture, "lstm");
  const Tensor lstm = std::get<0>(at::lstm(
      x, {zeros, zeros}, {w.kernel.t(), w.recurrent.t(), w.bias, torch::zeros({4 * kUnits})}, true,
      1, 0.0, false, false, true));
  EXPECT_TRUE(torch::allclose(y, lstm, 1e-5, 1e-6));
  const Tensor g =
      GRU(kUnits, {.bias_initializer = drawn_bias, .return_sequences = true})(x, fixture.context);
  const Weights v(fixture, "gru");
  const auto reordered = [](const Tensor& zrh) {
    const std::vector<Tensor> parts = zrh.chunk(3, -1);
    return at::cat({parts[1], parts[0], parts[2]}, -1);
  };
  const Tensor gru = std::get<0>(at::gru(x, zeros,
                                         {reordered(v.kernel).t(), reordered(v.recurrent).t(),
                                          reordered(v.bias[0]), reordered(v.bias[1])},
                                         true, 1, 0.0, false, false, true));
  EXPECT_TRUE(torch::allclose(g, gru, 1e-5, 1e-6));
}

TEST(Recurrent, HasKerasVariables) {
  Fixture fixture;
  const Tensor x = numbers({kBatch, kSteps, kFeatures}).to(kFloat32);
  SimpleRNN(3)(x, fixture.context);
  LSTM(3)(x, fixture.context);
  GRU(3)(x, fixture.context);
  GRU(3, {.reset_after = false, .name = "mine"})(x, fixture.context);
  LSTM(3, {.use_bias = false})(x, fixture.context);
  const auto shape = [&](const char* name) { return fixture.store.value(name).sizes().vec(); };
  EXPECT_EQ(shape("simple_rnn/kernel"), (Shape{4, 3}));
  EXPECT_EQ(shape("simple_rnn/recurrent_kernel"), (Shape{3, 3}));
  EXPECT_EQ(shape("simple_rnn/bias"), (Shape{3}));
  EXPECT_EQ(shape("lstm/kernel"), (Shape{4, 12}));
  EXPECT_EQ(shape("lstm/recurrent_kernel"), (Shape{3, 12}));
  EXPECT_EQ(shape("gru/bias"), (Shape{2, 9}));
  EXPECT_EQ(shape("mine/bias"), (Shape{9}));
  EXPECT_EQ(fixture.store.find("lstm_1/bias"), nullptr);
  EXPECT_EQ(numbers_of(fixture.store.value("lstm/bias")),
            (Numbers{0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0}));
  const Tensor rows = fixture.store.value("lstm/recurrent_kernel").detach();
  EXPECT_TRUE(torch::allclose(rows.mm(rows.t()), torch::eye(3), 1e-5, 1e-5));
  EXPECT_LE(fixture.store.value("lstm/kernel").abs().max().item<double>(), std::sqrt(6.0 / 16));
  LSTM(3, {.bias_initializer = initializers::ones(), .unit_forget_bias = false, .name = "ones"})
  (x, fixture.context);
  EXPECT_TRUE(fixture.store.value("ones/bias").eq(1).all().item<bool>());
}

std::vector<Layer> layers_of(bool return_sequences, bool usual = true) {
  const Activation activation = usual ? Activation(activations::tanh) : activations::softsign;
  return {
      SimpleRNN(
          kUnits,
          {.activation = activation, .return_sequences = return_sequences, .return_state = true}),
      LSTM(kUnits,
           {.activation = activation, .return_sequences = return_sequences, .return_state = true}),
      GRU(kUnits,
          {.activation = activation, .return_sequences = return_sequences, .return_state = true}),
      GRU(kUnits, {.activation = activation,
                   .return_sequences = return_sequences,
                   .return_state = true,
                   .reset_after = false})};
}

// Examples of several lengths, padded with numbers that must not matter.
TEST(Recurrent, GivesPaddedExamplesWhatEachGivesAlone) {
  const Tensor x = numbers({kBatch, kSteps, kFeatures});
  const std::vector<int64_t> lengths = {3, 5, 1};
  const Tensor mask = sequence_mask(torch::tensor(lengths));
  for (const bool usual : {true, false}) {
    for (const bool return_sequences : {true, false}) {
      for (const Layer& layer : layers_of(return_sequences, usual)) {
        SCOPED_TRACE(layer.impl().identity().class_name);
        Fixture fixture;
        const LayerOutputs all = layer({.tensors = {x}, .masks = {mask}}, fixture.context);
        ASSERT_EQ(all.masks.size(), return_sequences ? 1u : 0u);
        if (return_sequences) {
          EXPECT_TRUE(all.masks[0].equal(mask));
        }
        for (int64_t b = 0; b < kBatch; ++b) {
          const int64_t length = lengths[static_cast<size_t>(b)];
          const LayerOutputs alone =
              layer({.tensors = {x.slice(0, b, b + 1).slice(1, 0, length)}}, fixture.context);
          for (size_t i = 0; i < all.state.size(); ++i) {
            EXPECT_TRUE(torch::allclose(all.state[i][b], alone.state[i][0], 1e-12, 1e-12));
          }
          const Tensor given = all.tensors[0][b], expected = alone.tensors[0][0];
          if (!return_sequences) {
            EXPECT_TRUE(torch::allclose(given, expected, 1e-12, 1e-12));
            continue;
          }
          EXPECT_TRUE(torch::allclose(given.slice(0, 0, length), expected, 1e-12, 1e-12));
          // After the last step that counts its output is repeated.
          for (int64_t t = length; t < kSteps; ++t) EXPECT_TRUE(given[t].equal(given[length - 1]));
        }
      }
    }
  }
}

TEST(Recurrent, KeepsStateAndOutputOverStepsThatDoNotCount) {
  const Tensor x = numbers({1, 4, kFeatures});
  const Tensor mask = torch::tensor({{0, 1, 0, 1}}).to(at::kBool);
  const Tensor kept = at::stack({x[0][1], x[0][3]}).unsqueeze(0);
  for (const Layer& layer : layers_of(/*return_sequences=*/true)) {
    SCOPED_TRACE(layer.impl().identity().class_name);
    Fixture fixture;
    LayerInputs inputs{.tensors = {x}, .masks = {mask}, .state = {numbers({1, kUnits}, 1.1)}};
    if (layer.impl().identity().class_name == "lstm") inputs.state.push_back(inputs.state[0] * 2);
    const LayerOutputs all = layer(inputs, fixture.context);
    const Tensor few =
        layer({.tensors = {kept}, .state = inputs.state}, fixture.context).tensors[0];
    // Keras gives 0 before the first step that counts, whatever the state began with.
    EXPECT_TRUE(all.tensors[0][0][0].eq(0).all().item<bool>());
    EXPECT_TRUE(torch::allclose(all.tensors[0][0][1], few[0][0], 1e-12, 1e-12));
    EXPECT_TRUE(all.tensors[0][0][2].equal(all.tensors[0][0][1]));
    EXPECT_TRUE(torch::allclose(all.tensors[0][0][3], few[0][1], 1e-12, 1e-12));
    const LayerOutputs nothing =
        layer({.tensors = {x}, .masks = {torch::zeros_like(mask)}, .state = inputs.state},
              fixture.context);
    for (size_t i = 0; i < inputs.state.size(); ++i) {
      EXPECT_TRUE(nothing.state[i].equal(inputs.state[i]));
    }
  }
  Fixture fixture;
  const Tensor y = LSTM(kUnits, {.return_sequences = true, .zero_output_for_mask = true})(
                       {.tensors = {x}, .masks = {mask}}, fixture.context)
                       .tensors[0];
  EXPECT_TRUE(y[0][2].eq(0).all().item<bool>());
  EXPECT_FALSE(y[0][3].eq(0).any().item<bool>());
}

TEST(Recurrent, GoesBackwards) {
  const Tensor x = numbers({2, kSteps, kFeatures});
  const Tensor mask = sequence_mask(torch::tensor({5, 2}));
  Fixture fixture;
  const Layer layer = GRU(kUnits, {.return_sequences = true, .go_backwards = true});
  const LayerOutputs back = layer({.tensors = {x}, .masks = {mask}}, fixture.context);
  EXPECT_TRUE(back.masks[0].equal(mask.flip(1)));
  const Layer same = GRU(kUnits, {.return_sequences = true});
  Fixture other;
  const LayerOutputs flipped =
      same({.tensors = {x.flip(1)}, .masks = {mask.flip(1)}}, other.context);
  EXPECT_TRUE(back.tensors[0].equal(flipped.tensors[0]));
}

TEST(Recurrent, TakesStepsAsTheFirstAxis) {
  const Tensor x = numbers({2, kSteps, kFeatures});
  const Tensor mask = sequence_mask(torch::tensor({5, 2}));
  for (const bool return_sequences : {false, true}) {
    Fixture one, other;
    const LayerOutputs expected =
        LSTM(kUnits, {.return_sequences = return_sequences, .return_state = true})(
            {.tensors = {x}, .masks = {mask}}, one.context);
    const LayerOutputs found = LSTM(
        kUnits, {.return_sequences = return_sequences, .return_state = true, .time_major = true})(
        {.tensors = {x.transpose(0, 1)}, .masks = {mask.transpose(0, 1)}}, other.context);
    EXPECT_TRUE(found.state[1].equal(expected.state[1]));
    if (!return_sequences) {
      EXPECT_TRUE(found.tensors[0].equal(expected.tensors[0]));
      continue;
    }
    EXPECT_TRUE(found.tensors[0].equal(expected.tensors[0].transpose(0, 1)));
    EXPECT_TRUE(found.masks[0].equal(mask.transpose(0, 1)));
  }
  Fixture fixture;
  const auto penalty = [](const Tensor& y) { return y.sum(); };
  const Tensor y = SimpleRNN(
      kUnits, {.activity_regularizer = penalty, .return_sequences = true, .time_major = true})(
      x.transpose(0, 1), fixture.context);
  EXPECT_EQ(y.sizes(), (Shape{kSteps, 2, kUnits}));
  EXPECT_NEAR(fixture.context.take_losses()[0].item<double>(), y.sum().item<double>() / 2, 1e-12);
}

TEST(Recurrent, DropsTheSameNumbersInAllSteps) {
  const double rate = 0.5;
  const SimpleRNNOptions plain{.activation = activations::linear,
                               .kernel_initializer = initializers::identity(),
                               .recurrent_initializer = initializers::zeros(),
                               .return_sequences = true};
  const Tensor x = numbers({8, kSteps, 6});
  SimpleRNNOptions options = plain;
  options.dropout = rate;
  const Layer layer = SimpleRNN(6, options);
  Fixture fixture;
  EXPECT_TRUE(layer(x, fixture.context).equal(x));
  fixture.context.begin_step(true, 1, 0);
  const Tensor factors = layer(x, fixture.context) / x;
  EXPECT_TRUE(torch::allclose(factors, factors.slice(1, 0, 1).expand_as(factors)));
  const Tensor dropped = factors.abs().lt(1e-9);
  EXPECT_TRUE(dropped.any().item<bool>());
  EXPECT_TRUE(dropped.logical_or((factors - 2).abs().lt(1e-9)).all().item<bool>());
  fixture.context.begin_step(true, 1, 0);
  EXPECT_TRUE(torch::allclose(layer(x, fixture.context) / x, factors));
  fixture.context.begin_step(true, 2, 0);
  EXPECT_FALSE(torch::allclose(layer(x, fixture.context) / x, factors));

  options = plain;
  options.recurrent_initializer = initializers::identity();
  options.recurrent_dropout = rate;
  fixture.context.begin_step(true, 1, 0);
  const Tensor h = SimpleRNN(6, options)(x, fixture.context);
  // h[t] = x[t] + factor * h[t - 1], and the factor is 0 or 2.
  const Tensor state = ((h - x) / h.roll(1, 1)).slice(1, 1);
  EXPECT_TRUE(torch::allclose(state, state.slice(1, 0, 1).expand_as(state), 1e-6, 1e-6));
  const Tensor zero = state.abs().lt(1e-6);
  EXPECT_TRUE(zero.any().item<bool>());
  EXPECT_TRUE(zero.logical_or((state - 2).abs().lt(1e-6)).all().item<bool>());
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of([] { LSTM(0); }), "LSTM: units is 0");
  EXPECT_EQ(message_of([] { GRU(3, {.dropout = 1}); }), "GRU: dropout is 1");
  EXPECT_EQ(message_of([] { SimpleRNN(3, {.recurrent_dropout = -0.5}); }),
            "SimpleRNN: recurrent_dropout is -0.5");
  Fixture fixture;
  const Layer layer = LSTM(3);
  const Tensor x = numbers({2, 4, 5});
  layer(x, fixture.context);
  const auto message = [&](const LayerInputs& inputs) {
    return message_of([&] { layer(inputs, fixture.context); });
  };
  EXPECT_EQ(message({.tensors = {numbers({2, 5})}}),
            "layer lstm: expected [batch, steps, features] with at least one step, was given "
            "float64[2, 5]");
  EXPECT_EQ(message({.tensors = {numbers({2, 4, 6})}}),
            "layer lstm: expected [batch, steps, 5], was given float64[2, 4, 6]");
  EXPECT_EQ(message({.tensors = {x}, .state = {numbers({2, 3})}}),
            "layer lstm: expected a state of 2 tensors, was given 1");
  EXPECT_EQ(message({.tensors = {x}, .state = {numbers({2, 3}), numbers({2, 4})}}),
            "layer lstm: expected a state float64[2, 3], was given float64[2, 4]");
  EXPECT_EQ(message({.tensors = {x}, .masks = {torch::ones({2}, at::kBool)}}),
            "layer lstm: expected a mask [batch, steps], was given bool[2]");
  EXPECT_EQ(message({.tensors = {x, x}}), "layer lstm: expected one tensor, was given 2");
}

}  // namespace
}  // namespace muster::inline v0_1
