#include "muster/optim/internal/kernels.h"

#include "muster/optim/internal/element_ops.h"
#include "muster/optim/internal/vector_clones.h"

namespace muster::inline v0_1::optim::internal {
namespace {

template <typename Formula, typename T>
[[gnu::always_inline]] inline void loop(T* __restrict weights, const T* __restrict gradient,
                                        T* __restrict slot_0, T* __restrict slot_1,
                                        T* __restrict slot_2, int64_t n,
                                        typename Formula::template Step<T> step) {
  for (int64_t i = 0; i < n; ++i) {
    T w = weights[i];
    if constexpr (Formula::kSlots == 0) {
      Formula::template apply<ElementOps>(w, gradient[i], step);
    } else if constexpr (Formula::kSlots == 1) {
      T a = slot_0[i];
      Formula::template apply<ElementOps>(w, gradient[i], a, step);
      slot_0[i] = a;
    } else if constexpr (Formula::kSlots == 2) {
      T a = slot_0[i], b = slot_1[i];
      Formula::template apply<ElementOps>(w, gradient[i], a, b, step);
      slot_0[i] = a;
      slot_1[i] = b;
    } else {
      T a = slot_0[i], b = slot_1[i], c = slot_2[i];
      Formula::template apply<ElementOps>(w, gradient[i], a, b, c, step);
      slot_0[i] = a;
      slot_1[i] = b;
      slot_2[i] = c;
    }
    weights[i] = w;
  }
}

template <typename T>
[[gnu::always_inline]] inline double squares(const T* __restrict values, int64_t n) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const double x = values[i + l];
      lanes[l] += x * x;
    }
  }
  for (int64_t l = 0; i < n; ++i, ++l) {
    const double x = values[i];
    lanes[l] += x * x;
  }
  return total(lanes);
}

template <typename T>
[[gnu::always_inline]] inline void lamb_element(const T& w, const T& g, T& m, T& v,
                                                const LambStep<T>& step, double& weights,
                                                double& directions) {
  T first = m, second = v;
  Lamb::moments<ElementOps>(g, first, second, step);
  m = first;
  v = second;
  const double weight = w, direction = Lamb::direction<ElementOps>(w, first, second, step);
  weights += weight * weight;
  directions += direction * direction;
}

template <typename T>
[[gnu::always_inline]] inline LambSums lamb_loop(const T* __restrict w, const T* __restrict g,
                                                 T* __restrict m, T* __restrict v, int64_t n,
                                                 LambStep<T> step) {
  double weights[kLanes] = {}, directions[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      lamb_element(w[i + l], g[i + l], m[i + l], v[i + l], step, weights[l], directions[l]);
    }
  }
  for (int64_t l = 0; i < n; ++i, ++l)
    lamb_element(w[i], g[i], m[i], v[i], step, weights[l], directions[l]);
  return {total(weights), total(directions)};
}

// Clones need plain functions.
MUSTER_VECTOR_CLONES double squares_float(const float* x, int64_t n) { return squares(x, n); }
MUSTER_VECTOR_CLONES double squares_double(const double* x, int64_t n) { return squares(x, n); }
MUSTER_VECTOR_CLONES LambSums lamb_float(const float* w, const float* g, float* m, float* v,
                                         int64_t n, LambStep<float> s) {
  return lamb_loop(w, g, m, v, n, s);
}
MUSTER_VECTOR_CLONES LambSums lamb_double(const double* w, const double* g, double* m, double* v,
                                          int64_t n, LambStep<double> s) {
  return lamb_loop(w, g, m, v, n, s);
}

}  // namespace

template <>
double sum_of_squares(const float* values, int64_t n) {
  return squares_float(values, n);
}
template <>
double sum_of_squares(const double* values, int64_t n) {
  return squares_double(values, n);
}
template <>
LambSums lamb_moments(const float* w, const float* g, float* m, float* v, int64_t n,
                      LambStep<float> s) {
  return lamb_float(w, g, m, v, n, s);
}
template <>
LambSums lamb_moments(const double* w, const double* g, double* m, double* v, int64_t n,
                      LambStep<double> s) {
  return lamb_double(w, g, m, v, n, s);
}

// The kernel of one formula and element type.
#define MUSTER_KERNEL(FORMULA, T)                                                        \
  namespace {                                                                            \
  MUSTER_VECTOR_CLONES void FORMULA##_##T(T* w, const T* g, T* a, T* b, T* c, int64_t n, \
                                          FORMULA::Step<T> step) {                       \
    loop<FORMULA>(w, g, a, b, c, n, step);                                               \
  }                                                                                      \
  }                                                                                      \
  template <>                                                                            \
  void update<FORMULA>(T * weights, const T* gradient, SlotPointers<T> slots, int64_t n, \
                       FORMULA::Step<T> step) {                                          \
    FORMULA##_##T(weights, gradient, slots[0], slots[1], slots[2], n, step);             \
  }
#define MUSTER_KERNELS(FORMULA) \
  MUSTER_KERNEL(FORMULA, float) \
  MUSTER_KERNEL(FORMULA, double)

using PlainMomentum = Momentum<false>;
using Nesterov = Momentum<true>;

MUSTER_KERNELS(Sgd)
MUSTER_KERNELS(PlainMomentum)
MUSTER_KERNELS(Nesterov)
MUSTER_KERNELS(Decay)
MUSTER_KERNELS(MovingAverage)
MUSTER_KERNELS(StepBack)
MUSTER_KERNELS(Adam)
MUSTER_KERNELS(AdamW)
MUSTER_KERNELS(AmsGrad)
MUSTER_KERNELS(AmsGradW)
MUSTER_KERNELS(Adagrad)
MUSTER_KERNELS(KerasAdagrad)
MUSTER_KERNELS(Adamax)
MUSTER_KERNELS(PyTorchAdamax)
MUSTER_KERNELS(Nadam)
MUSTER_KERNELS(PlainRmsProp)
MUSTER_KERNELS(CenteredRmsProp)
MUSTER_KERNELS(KerasRmsProp)
MUSTER_KERNELS(KerasCenteredRmsProp)
MUSTER_KERNELS(MovingRmsProp)
MUSTER_KERNELS(CenteredMovingRmsProp)
MUSTER_KERNELS(PyTorchRmsProp)
MUSTER_KERNELS(PyTorchCenteredRmsProp)
MUSTER_KERNELS(Adadelta)
MUSTER_KERNELS(Ftrl)
MUSTER_KERNELS(PowerFtrl)
MUSTER_KERNELS(Lion)
MUSTER_KERNELS(Lamb)
MUSTER_KERNELS(Lars)
MUSTER_KERNELS(NesterovLars)

}  // namespace muster::inline v0_1::optim::internal
