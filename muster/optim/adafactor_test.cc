#include "muster/optim/adafactor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "muster/optim/internal/adafactor_update.h"
#include "muster/optim/internal/test_errors.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

using testing::message_of;

// Gradients of all sizes, zeros among them.
Tensor slopes_of(const Shape& shape, int step) {
  const Tensor index = torch::arange(1, c10::multiply_integers(shape) + 1, at::kDouble);
  return (index.mul(1.7 + step).sin() * index.remainder(5)).view(shape);
}

// One variable with its slots.
struct Trained {
  VariableSpec spec;
  Segment segment;
  Trained(const Optimizer& optimizer, const Shape& shape, DType dtype, bool row_sparse = false) {
    spec.shape = shape;
    spec.row_sparse = row_sparse;
    const int64_t n = c10::multiply_integers(shape);
    segment = {
        torch::arange(n, at::kDouble).mul(0.4).cos().to(dtype), torch::empty({n}, dtype), {}};
    for (const SlotSpec& slot : optimizer.rule().slots_of(spec)) {
      const Tensor values =
          torch::full(slot.shape.value_or(shape), slot.initial_value, torch::TensorOptions(dtype));
      segment.slots.push_back(values.view({-1}));
    }
  }
  void step(const Optimizer& optimizer, int step) {
    segment.variable = &spec;
    segment.gradient_scale = 0.5;
    segment.gradient.copy_(slopes_of(spec.shape, step).view({-1}).mul(2));
    optimizer.rule().update(segment, step);
  }
};

// The formula with whole tensors of doubles.
Tensor expected(const Shape& shape, int steps, const AdafactorOptions& o, bool factored) {
  Tensor w = torch::arange(c10::multiply_integers(shape), at::kDouble).mul(0.4).cos().view(shape);
  Tensor vr = torch::zeros({}, at::kDouble), vc = vr, v = vr;
  const auto rms = [](const Tensor& x) { return std::sqrt(x.square().mean().item<double>()); };
  for (int t = 1; t <= steps; ++t) {
    const double rate = o.learning_rate.at(t - 1), b = 1 - std::pow(t, o.beta_2_decay);
    const double rho = o.relative_step ? std::min(rate, 1 / std::sqrt(t)) : rate;
    const double alpha = rho * (o.scale_parameter ? std::max(o.epsilon_2, rms(w)) : 1);
    const Tensor g = slopes_of(shape, t - 1), s = g * g + o.epsilon_1;
    if (factored) {
      vr = b * vr + (1 - b) * s.mean(-1, true);
      vc = b * vc + (1 - b) * s.mean(-2, true);
      v = vr / vr.mean(-2, true) * vc;
    } else {
      v = b * v + (1 - b) * s;
    }
    const Tensor u = g / v.sqrt();
    w = w - alpha * u / std::max(1.0, rms(u) / o.clip_threshold);
  }
  return w.view({-1});
}

struct AdafactorCase {
  const char* label{};
  Shape shape{};
  AdafactorOptions options;
  bool row_sparse = false;
};

std::vector<AdafactorCase> adafactor_cases() {
  return {{"matrix", {5, 37}, {.learning_rate = 0.1}},
          {"tall matrix", {40, 3}, {.learning_rate = 0.1, .clip_threshold = 0.3}},
          {"kernel", {2, 3, 4, 21}, {.learning_rate = 0.1, .beta_2_decay = -0.5}},
          {"vector", {53}, {.learning_rate = 0.1, .clip_threshold = 0.3}},
          {"scalar", {}, {.learning_rate = 0.1}},
          {"rows", {6, 7}, {.learning_rate = 0.1}, true},
          {"small weights", {5, 37}, {.learning_rate = 0.1, .epsilon_2 = 3}},
          {"unscaled", {5, 37}, {.learning_rate = 2, .scale_parameter = false}},
          {"rate alone", {5, 37}, {.learning_rate = 0.9, .relative_step = false}}};
}

TEST(Adafactor, FollowsTheFormula) {
  for (const AdafactorCase& one : adafactor_cases()) {
    const bool factored = one.shape.size() >= 2 && !one.row_sparse;
    const Tensor wanted = expected(one.shape, 4, one.options, factored);
    for (const DType dtype : {kFloat32, kFloat64}) {
      const Optimizer optimizer = adafactor(one.options);
      Trained trained(optimizer, one.shape, dtype, one.row_sparse);
      EXPECT_EQ(trained.segment.slots.size(), factored ? 2u : 1u);
      for (int step = 0; step < 4; ++step) trained.step(optimizer, step);
      const Tensor error = (trained.segment.weights.to(kFloat64) - wanted).abs().max();
      EXPECT_LT(error.item<double>(), dtype == kFloat64 ? 1e-12 : 3e-6) << one.label;
    }
  }
}

// On a device, tensors compute the same as the kernels.
TEST(Adafactor, KernelsComputeWhatTensorsDo) {
  for (const int64_t rows : {0, 3}) {
    const internal::AdafactorUpdate update{.rho = 0.1,
                                           .part = 0.4,
                                           .epsilon_1 = 1e-30,
                                           .epsilon_2 = 1e-3,
                                           .clip_threshold = 0.7,
                                           .rows = rows,
                                           .columns = rows > 0 ? 35 : 0};
    const auto fresh = [&] {
      Segment segment{torch::arange(210, kFloat64).cos(), torch::arange(210, kFloat64).sin(), {}};
      for (const int64_t length : rows > 0 ? Shape{6, 70} : Shape{210})
        segment.slots.push_back(torch::arange(length, kFloat64).sin().square() + 0.1);
      segment.gradient_scale = 0.3;
      return segment;
    };
    const Segment kernels = fresh(), tensors = fresh();
    internal::adafactor_on_cpu(kernels, update);
    internal::adafactor_on_tensors(tensors, update);
    EXPECT_TRUE(torch::allclose(kernels.weights, tensors.weights, 1e-12, 1e-13));
    EXPECT_FALSE(torch::allclose(kernels.weights, fresh().weights));
    for (size_t s = 0; s < kernels.slots.size(); ++s)
      EXPECT_TRUE(torch::allclose(kernels.slots[s], tensors.slots[s], 1e-12, 1e-13));
  }
}

TEST(Adafactor, SlotsFollowTheShapeOfTheVariable) {
  const auto described = [](const Optimizer& optimizer, const Shape& shape, bool row_sparse) {
    VariableSpec spec;
    spec.shape = shape;
    spec.row_sparse = row_sparse;
    std::string text;
    for (const SlotSpec& slot : optimizer.rule().slots_of(spec))
      text += slot.name + (slot.shape ? describe(*slot.shape) : "") + " ";
    return text;
  };
  EXPECT_EQ(described(adafactor(), {3, 5}, false), "vr[3] vc[5] ");
  EXPECT_EQ(described(adafactor(), {2, 3, 5}, false), "vr[2, 3] vc[2, 5] ");
  EXPECT_EQ(described(adafactor(), {5}, false), "v ");
  EXPECT_EQ(described(adafactor(), {3, 5}, true), "v ");
  EXPECT_EQ(described(exponential_moving_average(
                          decoupled_weight_decay(adafactor(), {.weight_decay = 0})),
                      {3, 5}, false),
            "vr[3] vc[5] average ");
  EXPECT_EQ(adafactor().describe(),
            "Adafactor: Adafactor(learning_rate=0.001, beta_2_decay=-0.8, epsilon_1=1e-30, "
            "epsilon_2=0.001, clip_threshold=1, relative_step=true, scale_parameter=true)");
}

TEST(Adafactor, RefusedArgumentsNameThemselves) {
  EXPECT_EQ(message_of([] { adafactor({.beta_2_decay = 0}); }),
            "adafactor: beta_2_decay is 0 | beta_2_decay must be at least -1 and below 0");
  EXPECT_EQ(message_of([] { adafactor({.epsilon_1 = 0}); }),
            "adafactor: epsilon_1 is 0 | epsilon_1 must be finite and above 0");
  EXPECT_EQ(message_of([] { adafactor({.epsilon_2 = -1}); }),
            "adafactor: epsilon_2 is -1 | epsilon_2 must be finite and above 0");
  EXPECT_EQ(message_of([] { adafactor({.clip_threshold = 0}); }),
            "adafactor: clip_threshold is 0 | clip_threshold must be finite and above 0");
  const Optimizer optimizer = adafactor();
  Trained wrong(optimizer, {3, 5}, kFloat32);
  wrong.segment.slots[1] = torch::zeros({4});
  const std::string text = message_of([&] { wrong.step(optimizer, 0); });
  EXPECT_EQ(text,
            "Adafactor: the slot vc of the segment is float32[4] on cpu, the weights are "
            "float32[15] on cpu | it must be contiguous, one-dimensional, 5 long, and of their "
            "dtype and device");
}

}  // namespace
}  // namespace muster::inline v0_1::optim
