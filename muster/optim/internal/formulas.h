// The formulas of the optimizers, each written once. `Ops` is their arithmetic: ElementOps for one
// weight at a time, in the kernels of the CPU; TensorOps for whole tensors, on any device. A
// formula is a type: kSlots, the numbers of its step, and apply<Ops>(w, gradient, slots..., step).
// Thread safety: pure functions of their arguments.
#pragma once

#include "muster/optim/internal/steps.h"

#define MUSTER_FORMULA [[gnu::always_inline]] static void

namespace muster::inline v0_1::optim::internal {

// sqrt(x + epsilon) where kUnderRoot, else sqrt(x) + epsilon.
template <typename Ops, bool kUnderRoot, typename V, typename T>
[[gnu::always_inline]] inline V root_with_epsilon(const V& x, T epsilon) {
  if constexpr (kUnderRoot) return Ops::root_of_sum(x, epsilon);
  return Ops::root_plus(x, epsilon);
}

// w -= learning_rate * g
struct Sgd {
  static constexpr int kSlots = 0;
  template <typename T>
  using Step = SgdStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, const SgdStep<T>& step) {
    Ops::subtract(w, step.learning_rate, Ops::scaled(gradient, step.gradient_scale));
  }
};

// u = momentum * u - learning_rate * g;  w += u, or with nesterov:
// w += momentum * u - learning_rate * g
template <bool kNesterov>
struct Momentum {
  static constexpr int kSlots = 1;
  template <typename T>
  using Step = SgdStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& u, const SgdStep<T>& step) {
    move<Ops>(w, V(Ops::scaled(gradient, step.gradient_scale)), u, step.learning_rate,
              step.momentum);
  }
  // `g` is the gradient with its scale.
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA move(V& w, const V& g, V& u, T learning_rate, T momentum) {
    Ops::multiply(u, momentum);
    Ops::subtract(u, learning_rate, g);
    if constexpr (kNesterov) {
      V ahead = Ops::product(u, momentum);
      Ops::subtract(ahead, learning_rate, g);
      Ops::add(w, ahead);
    } else {
      Ops::add(w, u);
    }
  }
};

// w -= w * decay; the gradient is left alone
struct Decay {
  static constexpr int kSlots = 0;
  template <typename T>
  using Step = DecayStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V&, const DecayStep<T>& step) {
    Ops::subtract(w, step.decay, w);
  }
};

// a += (w - a) * part, and with kBack: w = a; the gradient is left alone
template <bool kBack>
struct MovingAverageOf {
  static constexpr int kSlots = 1;
  template <typename T>
  using Step = AverageStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V&, V& a, const AverageStep<T>& step) {
    Ops::approach(a, w, step.part);
    if constexpr (kBack) Ops::assign(w, a);
  }
};
using MovingAverage = MovingAverageOf<false>;
using StepBack = MovingAverageOf<true>;

// w -= w * decay, if it decays; m += (g - m) * (1 - beta_1);  v += (g * g - v) * (1 - beta_2); w -=
// m * alpha / (sqrt(v) + epsilon), or with AMSGrad: vhat = max(vhat, v);  w -= m * alpha /
// (sqrt(vhat) + epsilon)
template <bool kDecays>
struct AdamOf {
  static constexpr int kSlots = 2;
  template <typename T>
  using Step = AdamStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& m, V& v, const AdamStep<T>& step) {
    moments<Ops>(w, gradient, m, v, step);
    Ops::subtract_quotient(w, step.alpha, m, Ops::root_plus(v, step.epsilon));
  }
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA moments(V& w, const V& gradient, V& m, V& v, const AdamStep<T>& step) {
    const V g = Ops::scaled(gradient, step.gradient_scale);
    if constexpr (kDecays) Ops::subtract(w, step.decay, w);
    Ops::approach(m, g, step.one_minus_beta_1);
    Ops::approach(v, Ops::square(g), step.one_minus_beta_2);
  }
};
using Adam = AdamOf<false>;
using AdamW = AdamOf<true>;

template <bool kDecays>
struct AmsGradOf {
  static constexpr int kSlots = 3;
  template <typename T>
  using Step = AdamStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& m, V& v, V& vhat, const AdamStep<T>& step) {
    AdamOf<kDecays>::template moments<Ops>(w, gradient, m, v, step);
    Ops::assign(vhat, V(Ops::larger(vhat, v)));
    Ops::subtract_quotient(w, step.alpha, m, Ops::root_plus(vhat, step.epsilon));
  }
};
using AmsGrad = AmsGradOf<false>;
using AmsGradW = AmsGradOf<true>;

// a += g * g;  w -= learning_rate * g / (sqrt(a) + epsilon)
// Keras since 2.11: w -= learning_rate * g / sqrt(a + epsilon)
template <bool kKeras>
struct AdagradOf {
  static constexpr int kSlots = 1;
  template <typename T>
  using Step = AdagradStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& a, const AdagradStep<T>& step) {
    const V g = Ops::scaled(gradient, step.gradient_scale);
    Ops::add_square(a, g);
    Ops::subtract_quotient(w, step.learning_rate, g,
                           root_with_epsilon<Ops, kKeras>(a, step.epsilon));
  }
};
using Adagrad = AdagradOf<false>;
using KerasAdagrad = AdagradOf<true>;

// m += (g - m) * (1 - beta_1);  v = max(beta_2 * v, |g|);  w -= m * alpha / (v + epsilon)
// PyTorch: v = max(beta_2 * v, |g| + epsilon);  w -= m * alpha / v
template <bool kPyTorch>
struct AdamaxOf {
  static constexpr int kSlots = 2;
  template <typename T>
  using Step = AdamaxStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& m, V& v, const AdamaxStep<T>& step) {
    const V g = Ops::scaled(gradient, step.gradient_scale);
    Ops::approach(m, g, step.one_minus_beta_1);
    V size = Ops::absolute(g);
    if constexpr (kPyTorch) size += step.epsilon;
    Ops::multiply(v, step.beta_2);
    Ops::assign(v, V(Ops::larger(v, size)));
    if constexpr (kPyTorch) {
      Ops::subtract_quotient(w, step.alpha, m, v);
    } else {
      Ops::subtract_quotient(w, step.alpha, m, V(v + step.epsilon));
    }
  }
};
using Adamax = AdamaxOf<false>;
using PyTorchAdamax = AdamaxOf<true>;

// The moments of Adam;
// w -= (gradient_part * g + moment_part * m) / (sqrt(v) + epsilon)
struct Nadam {
  static constexpr int kSlots = 2;
  template <typename T>
  using Step = NadamStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& m, V& v, const NadamStep<T>& step) {
    const V g = Ops::scaled(gradient, step.gradient_scale);
    Ops::approach(m, g, step.one_minus_beta_1);
    Ops::approach(v, Ops::square(g), step.one_minus_beta_2);
    V change = Ops::product(m, step.moment_part);
    Ops::subtract(change, -step.gradient_part, g);
    Ops::subtract_quotient(w, T{1}, change, Ops::root_plus(v, step.epsilon));
  }
};

// rms += (g * g - rms) * (1 - rho);  centered: mg += (g - mg) * (1 - rho), d = rms - mg * mg, which
// is no less than 0 except for rounding; else d = rms.
// kNone:        w -= learning_rate * g / (sqrt(d) + epsilon)
// kNoneKeras:   w -= learning_rate * g / sqrt(d + epsilon)
// kTensorFlow:  u = momentum * u + learning_rate * g / sqrt(d + epsilon);  w -= u
// kPyTorch:     u = momentum * u + g / (sqrt(d) + epsilon);  w -= learning_rate * u
enum class RmsMomentum { kNone, kNoneKeras, kTensorFlow, kPyTorch };
template <bool kCentered, RmsMomentum kMomentum>
struct RmsProp {
  static constexpr bool kUnderRoot = kMomentum == RmsMomentum::kNoneKeras;
  static constexpr bool kMoves = kMomentum != RmsMomentum::kNone && !kUnderRoot;
  static constexpr int kSlots = 1 + kMoves + kCentered;
  template <typename T>
  using Step = RmsPropStep<T>;

  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& rms, const RmsPropStep<T>& step) {
    const V g = Ops::scaled(gradient, step.gradient_scale);
    Ops::approach(rms, Ops::square(g), step.one_minus_rho);
    Ops::subtract_quotient(w, step.learning_rate, g,
                           root_with_epsilon<Ops, kUnderRoot>(rms, step.epsilon));
  }
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& rms, V& other, const RmsPropStep<T>& step) {
    const V g = Ops::scaled(gradient, step.gradient_scale);
    Ops::approach(rms, Ops::square(g), step.one_minus_rho);
    if constexpr (kCentered) {
      const V variance = variance_of<Ops>(g, rms, other, step);
      Ops::subtract_quotient(w, step.learning_rate, g,
                             root_with_epsilon<Ops, kUnderRoot>(variance, step.epsilon));
    } else {
      move<Ops>(w, g, rms, other, step);
    }
  }
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& rms, V& u, V& mg, const RmsPropStep<T>& step) {
    const V g = Ops::scaled(gradient, step.gradient_scale);
    Ops::approach(rms, Ops::square(g), step.one_minus_rho);
    move<Ops>(w, g, V(variance_of<Ops>(g, rms, mg, step)), u, step);
  }

 private:
  template <typename Ops, typename V, typename T>
  [[gnu::always_inline]] static V variance_of(const V& g, const V& rms, V& mg,
                                              const RmsPropStep<T>& step) {
    Ops::approach(mg, g, step.one_minus_rho);
    return Ops::not_negative(V(rms - Ops::square(mg)));
  }
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA move(V& w, const V& g, const V& variance, V& u, const RmsPropStep<T>& step) {
    Ops::multiply(u, step.momentum);
    if constexpr (kMomentum == RmsMomentum::kTensorFlow) {
      const V root = Ops::root_of_sum(variance, step.epsilon);
      Ops::subtract_quotient(u, -step.learning_rate, g, root);
      Ops::subtract(w, T{1}, u);
    } else {
      Ops::subtract_quotient(u, T{-1}, g, Ops::root_plus(variance, step.epsilon));
      Ops::subtract(w, step.learning_rate, u);
    }
  }
};
using PlainRmsProp = RmsProp<false, RmsMomentum::kNone>;
using CenteredRmsProp = RmsProp<true, RmsMomentum::kNone>;
using KerasRmsProp = RmsProp<false, RmsMomentum::kNoneKeras>;
using KerasCenteredRmsProp = RmsProp<true, RmsMomentum::kNoneKeras>;
using MovingRmsProp = RmsProp<false, RmsMomentum::kTensorFlow>;
using CenteredMovingRmsProp = RmsProp<true, RmsMomentum::kTensorFlow>;
using PyTorchRmsProp = RmsProp<false, RmsMomentum::kPyTorch>;
using PyTorchCenteredRmsProp = RmsProp<true, RmsMomentum::kPyTorch>;

// a += (g * g - a) * (1 - rho);  u = g * sqrt(d + epsilon) / sqrt(a + epsilon);
// d += (u * u - d) * (1 - rho);  w -= learning_rate * u
struct Adadelta {
  static constexpr int kSlots = 2;
  template <typename T>
  using Step = AdadeltaStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& a, V& d, const AdadeltaStep<T>& step) {
    const V g = Ops::scaled(gradient, step.gradient_scale);
    Ops::approach(a, Ops::square(g), step.one_minus_rho);
    const V u = g * Ops::root_of_sum(d, step.epsilon) / Ops::root_of_sum(a, step.epsilon);
    Ops::approach(d, Ops::square(u), step.one_minus_rho);
    Ops::subtract(w, step.learning_rate, u);
  }
};

// With p(x) = x^minus_power, the square root where kRoot: z += g + shrinkage_twice * w - (p(a + g *
// g) - p(a)) / learning_rate * w;  a += g * g; w = (z brought into [-l1, l1] - z) / (p(a) /
// learning_rate + l2_twice), and 0 if z is there
template <bool kRoot>
struct FtrlOf {
  static constexpr int kSlots = 2;
  template <typename T>
  using Step = FtrlStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& a, V& z, const FtrlStep<T>& step) {
    const V g = Ops::scaled(gradient, step.gradient_scale);
    const V before = power<Ops>(a, step);
    Ops::add_square(a, g);
    const V after = power<Ops>(a, step);
    z += g + w * step.shrinkage_twice - (after - before) / step.learning_rate * w;
    Ops::assign(w, V(Ops::quotient_or_zero(V(Ops::into_bounds(z, step.l1)),
                                           V(after / step.learning_rate + step.l2_twice))));
  }

 private:
  template <typename Ops, typename V, typename T>
  [[gnu::always_inline]] static V power(const V& a, const FtrlStep<T>& step) {
    if constexpr (kRoot) return Ops::root(a);
    return Ops::power(a, step.minus_power);
  }
};
using Ftrl = FtrlOf<true>;
using PowerFtrl = FtrlOf<false>;

// w -= learning_rate * sign(m + (g - m) * (1 - beta_1));  m += (g - m) * (1 - beta_2)
struct Lion {
  static constexpr int kSlots = 1;
  template <typename T>
  using Step = LionStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& m, const LionStep<T>& step) {
    const V g = Ops::scaled(gradient, step.gradient_scale);
    const V direction = m + (g - m) * step.one_minus_beta_1;
    Ops::subtract(w, step.learning_rate, Ops::sign(direction));
    Ops::approach(m, g, step.one_minus_beta_2);
  }
};

// The moments of Adam come first; then, with the norms of w and of the direction known:
// w -= learning_rate * (moment_correction * m / (root_correction * sqrt(v) + epsilon) +
//                       weight_decay * w)
struct Lamb {
  static constexpr int kSlots = 2;
  template <typename T>
  using Step = LambStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA moments(const V& gradient, V& m, V& v, const LambStep<T>& step) {
    const V g = Ops::scaled(gradient, step.gradient_scale);
    Ops::approach(m, g, step.one_minus_beta_1);
    Ops::approach(v, Ops::square(g), step.one_minus_beta_2);
  }
  template <typename Ops, typename V, typename T>
  [[gnu::always_inline]] static V direction(const V& w, const V& m, const V& v,
                                            const LambStep<T>& step) {
    return m * step.moment_correction / (Ops::root(v) * step.root_correction + step.epsilon) +
           w * step.weight_decay;
  }
  // The gradient is in the moments already.
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V&, V& m, V& v, const LambStep<T>& step) {
    Ops::subtract(w, step.learning_rate, V(direction<Ops>(w, m, v, step)));
  }
};

// Momentum with g + weight_decay * w, and a learning rate that holds the trust ratio.
template <bool kNesterov>
struct LarsOf {
  static constexpr int kSlots = 1;
  template <typename T>
  using Step = LarsStep<T>;
  template <typename Ops, typename V, typename T>
  MUSTER_FORMULA apply(V& w, const V& gradient, V& u, const LarsStep<T>& step) {
    const V g = gradient * step.gradient_scale + w * step.weight_decay;
    Momentum<kNesterov>::template move<Ops>(w, g, u, step.learning_rate, step.momentum);
  }
};
using Lars = LarsOf<false>;
using NesterovLars = LarsOf<true>;

}  // namespace muster::inline v0_1::optim::internal

#undef MUSTER_FORMULA
