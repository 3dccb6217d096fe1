// The formulas of the optimizers, each written once. `Ops` is their arithmetic: ElementOps for one
// weight at a time, in the kernels of the CPU; TensorOps for whole tensors, on any device.
// Thread safety: pure functions of what they are given.
#pragma once

#include "muster/optim/internal/steps.h"

namespace muster::inline v0_1::optim::internal {

// w -= learning_rate * g
template <typename Ops, typename V, typename T>
[[gnu::always_inline]] inline void sgd_formula(V& w, const V& gradient, const SgdStep<T>& step) {
  Ops::subtract(w, step.learning_rate, Ops::scaled(gradient, step.gradient_scale));
}

// u = momentum * u - learning_rate * g;  w += u, or with nesterov:
// w += momentum * u - learning_rate * g
template <typename Ops, bool nesterov, typename V, typename T>
[[gnu::always_inline]] inline void momentum_formula(V& w, const V& gradient, V& u,
                                                    const SgdStep<T>& step) {
  const V g = Ops::scaled(gradient, step.gradient_scale);
  Ops::multiply(u, step.momentum);
  Ops::subtract(u, step.learning_rate, g);
  if constexpr (nesterov) {
    V move = Ops::product(u, step.momentum);
    Ops::subtract(move, step.learning_rate, g);
    Ops::add(w, move);
  } else {
    Ops::add(w, u);
  }
}

// m += (g - m) * (1 - beta_1);  v += (g * g - v) * (1 - beta_2);
// w -= m * alpha / (sqrt(v) + epsilon)
template <typename Ops, typename V, typename T>
[[gnu::always_inline]] inline void adam_formula(V& w, const V& gradient, V& m, V& v,
                                                const AdamStep<T>& step) {
  const V g = Ops::scaled(gradient, step.gradient_scale);
  Ops::approach(m, g, step.one_minus_beta_1);
  Ops::approach(v, Ops::square(g), step.one_minus_beta_2);
  Ops::subtract_quotient(w, step.alpha, m, Ops::root_plus(v, step.epsilon));
}

// a += g * g;  w -= learning_rate * g / (sqrt(a) + epsilon)
template <typename Ops, typename V, typename T>
[[gnu::always_inline]] inline void adagrad_formula(V& w, const V& gradient, V& a,
                                                   const AdagradStep<T>& step) {
  const V g = Ops::scaled(gradient, step.gradient_scale);
  Ops::add_square(a, g);
  Ops::subtract_quotient(w, step.learning_rate, g, Ops::root_plus(a, step.epsilon));
}

}  // namespace muster::inline v0_1::optim::internal
