#include "muster/optim/internal/kernels.h"

#include "muster/optim/internal/element_ops.h"
#include "muster/optim/internal/formulas.h"

// The widest vectors of the machine that runs, chosen once when the program is loaded. Every
// operation in these loops is correctly rounded and none is fused (-ffp-contract=off), so all
// clones compute the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MUSTER_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MUSTER_VECTOR_CLONES
#endif

namespace muster::inline v0_1::optim::internal {
namespace {

template <typename T>
[[gnu::always_inline]] inline void sgd_loop(T* __restrict weights, const T* __restrict gradient,
                                            int64_t n, SgdStep<T> step) {
  for (int64_t i = 0; i < n; ++i) {
    T w = weights[i];
    sgd_formula<ElementOps>(w, gradient[i], step);
    weights[i] = w;
  }
}

template <bool nesterov, typename T>
[[gnu::always_inline]] inline void momentum_loop(T* __restrict weights,
                                                 const T* __restrict gradient,
                                                 T* __restrict velocity, int64_t n,
                                                 SgdStep<T> step) {
  for (int64_t i = 0; i < n; ++i) {
    T w = weights[i], u = velocity[i];
    momentum_formula<ElementOps, nesterov>(w, gradient[i], u, step);
    weights[i] = w;
    velocity[i] = u;
  }
}

template <typename T>
[[gnu::always_inline]] inline void adam_loop(T* __restrict weights, const T* __restrict gradient,
                                             T* __restrict m, T* __restrict v, int64_t n,
                                             AdamStep<T> step) {
  for (int64_t i = 0; i < n; ++i) {
    T w = weights[i], first = m[i], second = v[i];
    adam_formula<ElementOps>(w, gradient[i], first, second, step);
    weights[i] = w;
    m[i] = first;
    v[i] = second;
  }
}

template <typename T>
[[gnu::always_inline]] inline void adagrad_loop(T* __restrict weights, const T* __restrict gradient,
                                                T* __restrict accumulator, int64_t n,
                                                AdagradStep<T> step) {
  for (int64_t i = 0; i < n; ++i) {
    T w = weights[i], a = accumulator[i];
    adagrad_formula<ElementOps>(w, gradient[i], a, step);
    weights[i] = w;
    accumulator[i] = a;
  }
}

// Clones need plain functions: one per element type.
MUSTER_VECTOR_CLONES void sgd_float(float* w, const float* g, int64_t n, SgdStep<float> s) {
  sgd_loop(w, g, n, s);
}
MUSTER_VECTOR_CLONES void sgd_double(double* w, const double* g, int64_t n, SgdStep<double> s) {
  sgd_loop(w, g, n, s);
}
MUSTER_VECTOR_CLONES void momentum_float(float* w, const float* g, float* u, int64_t n,
                                         SgdStep<float> s) {
  momentum_loop<false>(w, g, u, n, s);
}
MUSTER_VECTOR_CLONES void momentum_double(double* w, const double* g, double* u, int64_t n,
                                          SgdStep<double> s) {
  momentum_loop<false>(w, g, u, n, s);
}
MUSTER_VECTOR_CLONES void nesterov_float(float* w, const float* g, float* u, int64_t n,
                                         SgdStep<float> s) {
  momentum_loop<true>(w, g, u, n, s);
}
MUSTER_VECTOR_CLONES void nesterov_double(double* w, const double* g, double* u, int64_t n,
                                          SgdStep<double> s) {
  momentum_loop<true>(w, g, u, n, s);
}
MUSTER_VECTOR_CLONES void adam_float(float* w, const float* g, float* m, float* v, int64_t n,
                                     AdamStep<float> s) {
  adam_loop(w, g, m, v, n, s);
}
MUSTER_VECTOR_CLONES void adam_double(double* w, const double* g, double* m, double* v, int64_t n,
                                      AdamStep<double> s) {
  adam_loop(w, g, m, v, n, s);
}
MUSTER_VECTOR_CLONES void adagrad_float(float* w, const float* g, float* a, int64_t n,
                                        AdagradStep<float> s) {
  adagrad_loop(w, g, a, n, s);
}
MUSTER_VECTOR_CLONES void adagrad_double(double* w, const double* g, double* a, int64_t n,
                                         AdagradStep<double> s) {
  adagrad_loop(w, g, a, n, s);
}

}  // namespace

template <>
void sgd(float* w, const float* g, int64_t n, SgdStep<float> s) {
  sgd_float(w, g, n, s);
}
template <>
void sgd(double* w, const double* g, int64_t n, SgdStep<double> s) {
  sgd_double(w, g, n, s);
}
template <>
void sgd_momentum(float* w, const float* g, float* u, int64_t n, SgdStep<float> s) {
  momentum_float(w, g, u, n, s);
}
template <>
void sgd_momentum(double* w, const double* g, double* u, int64_t n, SgdStep<double> s) {
  momentum_double(w, g, u, n, s);
}
template <>
void sgd_nesterov(float* w, const float* g, float* u, int64_t n, SgdStep<float> s) {
  nesterov_float(w, g, u, n, s);
}
template <>
void sgd_nesterov(double* w, const double* g, double* u, int64_t n, SgdStep<double> s) {
  nesterov_double(w, g, u, n, s);
}
template <>
void adam(float* w, const float* g, float* m, float* v, int64_t n, AdamStep<float> s) {
  adam_float(w, g, m, v, n, s);
}
template <>
void adam(double* w, const double* g, double* m, double* v, int64_t n, AdamStep<double> s) {
  adam_double(w, g, m, v, n, s);
}
template <>
void adagrad(float* w, const float* g, float* a, int64_t n, AdagradStep<float> s) {
  adagrad_float(w, g, a, n, s);
}
template <>
void adagrad(double* w, const double* g, double* a, int64_t n, AdagradStep<double> s) {
  adagrad_double(w, g, a, n, s);
}

}  // namespace muster::inline v0_1::optim::internal
