#include "muster/optim/internal/formulas.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <random>

#include "muster/optim/internal/element_ops.h"
#include "muster/optim/internal/update_anywhere.h"

namespace muster::inline v0_1::optim {
namespace {

using namespace internal;  // every formula

// Weights, gradient and three slots of one length. Slots are not negative; the first is well above
// the squares of the others, as a mean of squares is above the square of a mean.
struct Vectors {
  Tensor weights, gradient;
  std::array<Tensor, 3> slots;

  Vectors clone() const {
    return {
        weights.clone(), gradient.clone(), {slots[0].clone(), slots[1].clone(), slots[2].clone()}};
  }
};

Vectors random_vectors(std::mt19937& random, DType dtype, int64_t n) {
  std::normal_distribution<double> normal;
  const auto draw = [&](double scale) {
    Tensor values = torch::empty({n}, kFloat64);
    for (int64_t i = 0; i < n; ++i) values[i] = scale * normal(random);
    return values.to(dtype);
  };
  return {draw(1), draw(0.3), {draw(0.2).abs() + 0.5, draw(0.1).abs(), draw(0.1).abs()}};
}

// One formula: over tensors, by its kernel, and for one element by the arithmetic of plain numbers.
struct Rule {
  std::string name{};
  std::function<void(Vectors&)> tensors{};
  std::function<void(Vectors&)> kernel{};
  std::function<void(Vectors&, int64_t)> element{};
};

template <typename Formula>
Segment segment_of(const Vectors& vectors) {
  return {vectors.weights,
          vectors.gradient,
          {vectors.slots.begin(), vectors.slots.begin() + Formula::kSlots}};
}

template <typename Formula, typename T>
void apply_to_element(Vectors& v, int64_t i, const typename Formula::template Step<T>& step) {
  T& w = v.weights.data_ptr<T>()[i];
  const T g = v.gradient.data_ptr<T>()[i];
  const auto slot = [&](size_t s) -> T& { return v.slots[s].data_ptr<T>()[i]; };
  if constexpr (Formula::kSlots == 0) {
    Formula::template apply<ElementOps>(w, g, step);
  } else if constexpr (Formula::kSlots == 1) {
    Formula::template apply<ElementOps>(w, g, slot(0), step);
  } else if constexpr (Formula::kSlots == 2) {
    Formula::template apply<ElementOps>(w, g, slot(0), slot(1), step);
  } else {
    Formula::template apply<ElementOps>(w, g, slot(0), slot(1), slot(2), step);
  }
}

template <typename Formula, typename T>
Rule rule(const char* name, const typename Formula::template Step<double>& step) {
  return {name, [=](Vectors& v) { update_tensors<Formula>(segment_of<Formula>(v), step); },
          [=](Vectors& v) { update_anywhere<Formula>(segment_of<Formula>(v), step); },
          [=](Vectors& v, int64_t i) { apply_to_element<Formula, T>(v, i, cast<T>(step)); }};
}

template <typename T>
std::vector<Rule> rules(std::mt19937& random) {
  std::uniform_real_distribution<double> unit(0.01, 0.99);
  const auto part = [&] { return unit(random); };
  const double scale = part() < 0.5 ? 1.0 : part(), epsilon = 1e-3;
  const SgdStep<double> sgd{part(), part(), scale};
  const AdamStep<double> adam{part(), part(), part(), epsilon, scale, 0.1 * part()};
  const RmsPropStep<double> rms{part(), 0.5 * part(), part(), epsilon, scale};
  const AdamaxStep<double> adamax{part(), part(), part(), epsilon, scale};
  const FtrlStep<double> ftrl{0.3 + part(), 0.3 + part(), part(), part(), part(), scale};
  const LarsStep<double> lars{part(), part(), part(), scale};
  return {rule<Sgd, T>("sgd", sgd),
          rule<Momentum<false>, T>("momentum", sgd),
          rule<Momentum<true>, T>("nesterov", sgd),
          rule<Decay, T>("decay", {part()}),
          rule<MovingAverage, T>("moving average", {part()}),
          rule<StepBack, T>("step back", {part()}),
          rule<Adam, T>("adam", adam),
          rule<AdamW, T>("adamw", adam),
          rule<AmsGrad, T>("amsgrad", adam),
          rule<AmsGradW, T>("adamw, amsgrad", adam),
          rule<Adagrad, T>("adagrad", {part(), epsilon, scale}),
          rule<KerasAdagrad, T>("adagrad, Keras", {part(), epsilon, scale}),
          rule<Adamax, T>("adamax", adamax),
          rule<PyTorchAdamax, T>("adamax, PyTorch", adamax),
          rule<Nadam, T>("nadam", {part(), part(), part(), part(), epsilon, scale}),
          rule<PlainRmsProp, T>("rmsprop", rms),
          rule<CenteredRmsProp, T>("rmsprop, centered", rms),
          rule<KerasRmsProp, T>("rmsprop, Keras", rms),
          rule<KerasCenteredRmsProp, T>("rmsprop, centered, Keras", rms),
          rule<MovingRmsProp, T>("rmsprop, momentum", rms),
          rule<CenteredMovingRmsProp, T>("rmsprop, centered, momentum", rms),
          rule<PyTorchRmsProp, T>("rmsprop, PyTorch", rms),
          rule<PyTorchCenteredRmsProp, T>("rmsprop, centered, PyTorch", rms),
          rule<Adadelta, T>("adadelta", {part(), part(), epsilon, scale}),
          rule<Ftrl, T>("ftrl", ftrl),
          rule<PowerFtrl, T>("ftrl, power", ftrl),
          rule<Lion, T>("lion", {part(), part(), part(), scale}),
          rule<Lamb, T>("lamb", {part(), part(), part(), part(), epsilon, part(), scale, part()}),
          rule<Lars, T>("lars", lars),
          rule<NesterovLars, T>("lars, nesterov", lars)};
}

// Rounding of a few operations on numbers near 1, which are divided by no less than 1e-3.
template <typename T>
bool near(const Tensor& a, const Tensor& b) {
  constexpr double kTolerance = 32.0 * std::numeric_limits<T>::epsilon();
  return torch::allclose(a, b, kTolerance, kTolerance);
}

// The kernels of the CPU and the tensors of other devices follow one formula: the same bits where
// the operations are the same, and a few roundings apart where LibTorch joins some of them.
TEST(Formulas, KernelsAndTensorsAgree) {
  std::mt19937 random(5);
  for (const DType dtype : {kFloat32, kFloat64}) {
    with_weight_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      for (const int64_t n : {0, 1, 7, 64, 1003}) {
        for (const Rule& rule : rules<T>(random)) {
          const Vectors start = random_vectors(random, dtype, n);
          Vectors kernel = start.clone(), tensors = start.clone(), elements = start.clone();
          rule.kernel(kernel);
          rule.tensors(tensors);
          for (int64_t i = 0; i < n; ++i) rule.element(elements, i);
          EXPECT_TRUE(torch::equal(kernel.gradient, start.gradient)) << rule.name;
          EXPECT_TRUE(torch::equal(tensors.gradient, start.gradient)) << rule.name;
          EXPECT_TRUE(near<T>(tensors.weights, kernel.weights)) << rule.name << " of " << n;
          EXPECT_TRUE(near<T>(elements.weights, kernel.weights)) << rule.name << " of " << n;
          for (size_t s = 0; s < 3; ++s) {
            EXPECT_TRUE(near<T>(tensors.slots[s], kernel.slots[s])) << rule.name << " of " << n;
            EXPECT_TRUE(near<T>(elements.slots[s], kernel.slots[s])) << rule.name << " of " << n;
          }
        }
      }
    });
  }
}

// The first pass of LAMB, and the sums of norms, against LibTorch in double.
TEST(Formulas, SumsOfSquaresAreThoseOfTheTensors) {
  std::mt19937 random(6);
  for (const int64_t n : {0, 1, 15, 16, 17, 1003}) {
    const Vectors start = random_vectors(random, kFloat32, n);
    const LambStep<double> step{0.1, 0.2, 1.5, 1.25, 1e-3, 0.3, 0.5};
    Vectors tensors = start.clone(), kernel = start.clone();
    Lamb::moments<TensorOps>(tensors.gradient, tensors.slots[0], tensors.slots[1], step);
    const Tensor direction =
        Lamb::direction<TensorOps>(tensors.weights, tensors.slots[0], tensors.slots[1], step);
    const LambSums sums = lamb_moments<float>(
        kernel.weights.data_ptr<float>(), kernel.gradient.data_ptr<float>(),
        kernel.slots[0].data_ptr<float>(), kernel.slots[1].data_ptr<float>(), n, cast<float>(step));
    const auto squares = [](const Tensor& x) { return x.to(kFloat64).square().sum(); };
    EXPECT_NEAR(sums.weights, squares(start.weights).item<double>(), 1e-12 * (n + 1));
    EXPECT_NEAR(sums.direction, squares(direction).item<double>(), 1e-5 * (n + 1));
    EXPECT_NEAR(sum_of_squares(start.gradient), squares(start.gradient).item<double>(),
                1e-12 * (n + 1));
    EXPECT_TRUE(near<float>(tensors.slots[0], kernel.slots[0]));
    EXPECT_TRUE(near<float>(tensors.slots[1], kernel.slots[1]));
    EXPECT_TRUE(torch::equal(kernel.weights, start.weights));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::optim
