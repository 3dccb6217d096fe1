#include "muster/optim/internal/formulas.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "muster/optim/internal/element_ops.h"
#include "muster/optim/internal/kernels.h"
#include "muster/optim/internal/tensor_ops.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/weight_dtype.h"

namespace muster::inline v0_1::optim {
namespace {

using internal::AdagradStep;
using internal::AdamStep;
using internal::ElementOps;
using internal::SgdStep;
using internal::TensorOps;

// Weights, gradient and two slots of one length; slots are not negative.
struct Vectors {
  Tensor weights, gradient, first, second;

  Vectors clone() const {
    return {weights.clone(), gradient.clone(), first.clone(), second.clone()};
  }
};

Vectors random_vectors(std::mt19937& random, DType dtype, int64_t n) {
  std::normal_distribution<double> normal;
  const auto draw = [&](double scale) {
    Tensor values = torch::empty({n}, kFloat64);
    for (int64_t i = 0; i < n; ++i) values[i] = scale * normal(random);
    return values.to(dtype);
  };
  return {draw(1), draw(0.3), draw(0.2).abs(), draw(0.5).abs()};
}

// One rule: its step, in double, for a kernel and for the formula over tensors.
struct Rule {
  std::string name;
  std::function<void(Vectors&)> tensors;
  std::function<void(Vectors&)> kernel;
  // One element, by the arithmetic of plain numbers.
  std::function<void(Vectors&, int64_t)> element;
};

template <typename T>
T* data(const Tensor& tensor) {
  return tensor.data_ptr<T>();
}

template <typename T>
const T* read(const Tensor& tensor) {
  return tensor.data_ptr<T>();
}

template <typename T>
Rule sgd_rule(const SgdStep<double>& sgd) {
  return {"sgd", [=](Vectors& v) { internal::sgd_formula<TensorOps>(v.weights, v.gradient, sgd); },
          [=](Vectors& v) {
            internal::sgd(data<T>(v.weights), read<T>(v.gradient), v.weights.numel(),
                          sgd.cast<T>());
          },
          [=](Vectors& v, int64_t i) {
            internal::sgd_formula<ElementOps>(data<T>(v.weights)[i], read<T>(v.gradient)[i],
                                              sgd.cast<T>());
          }};
}

template <typename T, bool kNesterov>
Rule momentum_rule(const SgdStep<double>& sgd) {
  return {kNesterov ? "nesterov" : "momentum",
          [=](Vectors& v) {
            internal::momentum_formula<TensorOps, kNesterov>(v.weights, v.gradient, v.first, sgd);
          },
          [=](Vectors& v) {
            const auto kernel = kNesterov ? internal::sgd_nesterov<T> : internal::sgd_momentum<T>;
            kernel(data<T>(v.weights), read<T>(v.gradient), data<T>(v.first), v.weights.numel(),
                   sgd.cast<T>());
          },
          [=](Vectors& v, int64_t i) {
            internal::momentum_formula<ElementOps, kNesterov>(
                data<T>(v.weights)[i], read<T>(v.gradient)[i], data<T>(v.first)[i], sgd.cast<T>());
          }};
}

template <typename T>
Rule adam_rule(const AdamStep<double>& adam) {
  return {"adam",
          [=](Vectors& v) {
            internal::adam_formula<TensorOps>(v.weights, v.gradient, v.first, v.second, adam);
          },
          [=](Vectors& v) {
            internal::adam(data<T>(v.weights), read<T>(v.gradient), data<T>(v.first),
                           data<T>(v.second), v.weights.numel(), adam.cast<T>());
          },
          [=](Vectors& v, int64_t i) {
            internal::adam_formula<ElementOps>(data<T>(v.weights)[i], read<T>(v.gradient)[i],
                                               data<T>(v.first)[i], data<T>(v.second)[i],
                                               adam.cast<T>());
          }};
}

template <typename T>
Rule adagrad_rule(const AdagradStep<double>& adagrad) {
  return {"adagrad",
          [=](Vectors& v) {
            internal::adagrad_formula<TensorOps>(v.weights, v.gradient, v.first, adagrad);
          },
          [=](Vectors& v) {
            internal::adagrad(data<T>(v.weights), read<T>(v.gradient), data<T>(v.first),
                              v.weights.numel(), adagrad.cast<T>());
          },
          [=](Vectors& v, int64_t i) {
            internal::adagrad_formula<ElementOps>(data<T>(v.weights)[i], read<T>(v.gradient)[i],
                                                  data<T>(v.first)[i], adagrad.cast<T>());
          }};
}

template <typename T>
std::vector<Rule> rules(std::mt19937& random) {
  std::uniform_real_distribution<double> unit(0.01, 0.99);
  const double scale = unit(random) < 0.5 ? 1.0 : unit(random);
  const SgdStep<double> sgd{unit(random), unit(random), scale};
  const AdamStep<double> adam{unit(random), unit(random), unit(random), 1e-3, scale};
  const AdagradStep<double> adagrad{unit(random), 1e-3, scale};
  return {sgd_rule<T>(sgd), momentum_rule<T, false>(sgd), momentum_rule<T, true>(sgd),
          adam_rule<T>(adam), adagrad_rule<T>(adagrad)};
}

// Rounding of a few operations on numbers near 1, which are divided by no less than 1e-3.
template <typename T>
bool near(const Tensor& a, const Tensor& b) {
  constexpr double kTolerance = 16.0 * std::numeric_limits<T>::epsilon();
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
          for (const auto part : {&Vectors::weights, &Vectors::first, &Vectors::second}) {
            EXPECT_TRUE(near<T>(tensors.*part, kernel.*part)) << rule.name << " of " << n;
            EXPECT_TRUE(near<T>(elements.*part, kernel.*part)) << rule.name << " of " << n;
          }
        }
      }
    });
  }
}

}  // namespace
}  // namespace muster::inline v0_1::optim
