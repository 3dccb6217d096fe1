#include "muster/layers/internal/recurrent_sequence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "muster/layers/internal/test_layers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::numbers;

internal::RecurrentSequence sequence_of(const internal::RecurrentCell& cell, DType dtype,
                                        bool masked) {
  const int64_t width = cell.gates() * cell.units;
  const auto leaf = [&](at::IntArrayRef shape, double phase) {
    return (numbers(shape, phase) * 0.7).to(dtype).requires_grad_();
  };
  internal::RecurrentSequence s{.inputs = leaf({5, 3, 4}, 0.3),
                                .kernel = leaf({4, width}, 1.3),
                                .recurrent_kernel = leaf({cell.units, width}, 2.3)};
  s.bias = cell.has_state_bias() ? leaf({2, width}, 0.8) : leaf({width}, 0.8);
  for (size_t i = 0; i < cell.states(); ++i) {
    s.state.push_back(leaf({3, cell.units}, 0.1 + static_cast<double>(i)));
  }
  if (masked) {
    s.counts = torch::tensor({{1, 0, 1}, {1, 1, 0}, {0, 1, 1}, {1, 1, 0}, {1, 0, 1}}).to(at::kBool);
  }
  return s;
}

Tensor weighted_sum(const internal::RecurrentResult& result) {
  Tensor sum =
      (result.outputs * numbers(result.outputs.sizes(), 1.7).to(result.outputs.dtype())).sum();
  for (const Tensor& state : result.state) {
    sum = sum + (state * numbers(state.sizes(), 0.9).to(state.dtype())).sum();
  }
  return sum;
}

std::vector<internal::RecurrentCell> fast_cells(int64_t units) {
  return {{.kind = internal::RecurrentCell::Kind::kLstm, .units = units},
          {.kind = internal::RecurrentCell::Kind::kGru, .units = units}};
}

std::vector<Tensor> leaves_of(const internal::RecurrentSequence& s) {
  std::vector<Tensor> leaves = {s.inputs, s.kernel, s.recurrent_kernel, s.bias};
  leaves.insert(leaves.end(), s.state.begin(), s.state.end());
  return leaves;
}

// 19 units fill a vector and leave some over.
TEST(RecurrentSequence, ComputesWhatItsStepsDo) {
  for (const internal::RecurrentCell& cell : fast_cells(19)) {
    for (const auto dtype : {kFloat32, kFloat64}) {
      for (const bool masked : {false, true}) {
        const internal::RecurrentSequence s = sequence_of(cell, dtype, masked);
        const double tolerance = dtype == kFloat32 ? 2e-5 : 1e-12;
        const Tensor fast = weighted_sum(internal::recurrent_sequence(cell, s));
        const Tensor steps = weighted_sum(internal::recurrent_steps(cell, s));
        EXPECT_TRUE(torch::allclose(fast, steps, tolerance, tolerance));
        const auto gradients = torch::autograd::grad({fast}, leaves_of(s));
        const auto expected = torch::autograd::grad({steps}, leaves_of(s));
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(torch::allclose(gradients[i], expected[i], tolerance, tolerance)) << i;
        }
      }
    }
  }
}

TEST(RecurrentSequence, HasGradientsThatCanBeDerivedAgain) {
  for (const internal::RecurrentCell& cell : fast_cells(3)) {
    const internal::RecurrentSequence s = sequence_of(cell, kFloat64, /*masked=*/true);
    std::vector<Tensor> twice[2];
    for (const bool fast : {false, true}) {
      const Tensor sum = weighted_sum(fast ? internal::recurrent_sequence(cell, s)
                                           : internal::recurrent_steps(cell, s));
      const auto once = torch::autograd::grad({sum}, leaves_of(s), {}, true, true);
      Tensor squares = torch::zeros({}, kFloat64);
      for (const Tensor& each : once) squares = squares + each.square().sum();
      twice[fast] = torch::autograd::grad({squares}, leaves_of(s));
    }
    for (size_t i = 0; i < twice[0].size(); ++i) {
      EXPECT_TRUE(torch::allclose(twice[1][i], twice[0][i], 1e-10, 1e-10)) << i;
    }
  }
}

// The results of float32 vectors must be right for large inputs too, and NaN must stay NaN.
TEST(RecurrentSequence, SaturatesAndKeepsNan) {
  const internal::RecurrentCell cell = fast_cells(1)[0];
  for (const double size : {1e-3, 0.3, 0.624, 0.626, 3.0, 20.0, 50.0, 90.0, 1e4, 1e38}) {
    for (const double sign : {-1.0, 1.0}) {
      const auto filled = [&](at::IntArrayRef shape, double value) {
        return torch::full(shape, value, kFloat32);
      };
      internal::RecurrentSequence s{.inputs = filled({1, 1, 1}, 1),
                                    .kernel = filled({1, 4}, size * sign),
                                    .recurrent_kernel = filled({1, 4}, 0),
                                    .state = {filled({1, 1}, 0), filled({1, 1}, 0.5)}};
      const float x = static_cast<float>(size * sign);
      const double gate = 1 / (1 + std::exp(-static_cast<double>(x))),
                   c = gate * 0.5 + gate * std::tanh(x);
      const internal::RecurrentResult result = internal::recurrent_sequence(cell, s);
      EXPECT_NEAR(result.state[1].item<double>(), c, 1e-7) << x;
      EXPECT_NEAR(result.state[0].item<double>(), gate * std::tanh(c), 1e-7) << x;
    }
  }
  internal::RecurrentSequence s = sequence_of(cell, kFloat32, /*masked=*/false);
  s.inputs = torch::full_like(s.inputs, std::nan(""));
  EXPECT_TRUE(internal::recurrent_sequence(cell, s).outputs.isnan().all().item<bool>());
}

TEST(RecurrentSequence, NoticesWhoWritesToItsOutputs) {
  const internal::RecurrentCell cell = fast_cells(3)[0];
  const internal::RecurrentResult result =
      internal::recurrent_sequence(cell, sequence_of(cell, kFloat64, /*masked=*/false));
  Tensor outputs = result.outputs.transpose(0, 1);
  outputs.mul_(2);
  EXPECT_THROW(outputs.sum().backward(), c10::Error);
}

}  // namespace
}  // namespace muster::inline v0_1
