#include "muster/optim/internal/adafactor_kernels.h"

#include <cmath>

#include "muster/optim/internal/vector_clones.h"

namespace muster::inline v0_1::optim::internal {
namespace {

// Calls element(j, lane) for all of [0, n), so that lanes become vectors.
template <typename Element>
[[gnu::always_inline]] inline void in_lanes(int64_t n, Element element) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) element(i + l, l);
  }
  for (int64_t l = 0; i < n; ++i, ++l) element(i, l);
}

template <typename T>
[[gnu::always_inline]] inline double row_squares(const T* __restrict g, int64_t n, T scale,
                                                 double* __restrict columns) {
  double lanes[kLanes] = {};
  in_lanes(
      n, [&](int64_t j, int64_t l) __attribute__((always_inline)) {
        const double x = g[j] * scale, square = x * x;
        columns[j] += square;
        lanes[l] += square;
      });
  return total(lanes);
}

template <typename T>
[[gnu::always_inline]] inline double row_updates(const T* __restrict g, int64_t n, T scale,
                                                 const T* __restrict columns) {
  double lanes[kLanes] = {};
  in_lanes(
      n, [&](int64_t j, int64_t l) __attribute__((always_inline)) {
        const double u = g[j] * scale * columns[j];
        lanes[l] += u * u;
      });
  return total(lanes);
}

template <typename T>
[[gnu::always_inline]] inline void row_apply(const T* __restrict g, int64_t n, T scale,
                                             const T* __restrict columns, T rate, T* __restrict w) {
  for (int64_t j = 0; j < n; ++j) w[j] -= g[j] * scale * columns[j] * rate;
}

template <typename T>
[[gnu::always_inline]] inline double whole_moment(const T* __restrict g, int64_t n, T scale,
                                                  T epsilon, T part, T* __restrict v) {
  double lanes[kLanes] = {};
  in_lanes(
      n, [&](int64_t i, int64_t l) __attribute__((always_inline)) {
        const T x = g[i] * scale;
        const T next = v[i] + (x * x + epsilon - v[i]) * part;
        v[i] = next;
        const double u = x / std::sqrt(next);
        lanes[l] += u * u;
      });
  return total(lanes);
}

template <typename T>
[[gnu::always_inline]] inline void whole_apply(const T* __restrict g, int64_t n, T scale,
                                               const T* __restrict v, T rate, T* __restrict w) {
  for (int64_t i = 0; i < n; ++i) w[i] -= g[i] * scale / std::sqrt(v[i]) * rate;
}

}  // namespace

// Clones need plain functions.
#define MUSTER_ADAFACTOR(T)                                                                       \
  namespace {                                                                                     \
  MUSTER_VECTOR_CLONES double row_squares_##T(const T* g, int64_t n, T scale, double* columns) {  \
    return row_squares(g, n, scale, columns);                                                     \
  }                                                                                               \
  MUSTER_VECTOR_CLONES double row_updates_##T(const T* g, int64_t n, T scale, const T* columns) { \
    return row_updates(g, n, scale, columns);                                                     \
  }                                                                                               \
  MUSTER_VECTOR_CLONES void row_apply_##T(const T* g, int64_t n, T scale, const T* columns,       \
                                          T rate, T* w) {                                         \
    row_apply(g, n, scale, columns, rate, w);                                                     \
  }                                                                                               \
  MUSTER_VECTOR_CLONES double whole_moment_##T(const T* g, int64_t n, T scale, T epsilon, T part, \
                                               T* v) {                                            \
    return whole_moment(g, n, scale, epsilon, part, v);                                           \
  }                                                                                               \
  MUSTER_VECTOR_CLONES void whole_apply_##T(const T* g, int64_t n, T scale, const T* v, T rate,   \
                                            T* w) {                                               \
    whole_apply(g, n, scale, v, rate, w);                                                         \
  }                                                                                               \
  }                                                                                               \
  template <>                                                                                     \
  void sum_squares(const GradientMatrix<T>& g, double* rows, double* columns) {                   \
    for (int64_t i = 0; i < g.rows; ++i)                                                          \
      rows[i] = row_squares_##T(g.values + i * g.columns, g.columns, g.scale, columns);           \
  }                                                                                               \
  template <>                                                                                     \
  double sum_update_squares(const GradientMatrix<T>& g, const T* rows, const T* columns) {        \
    double sum = 0;                                                                               \
    for (int64_t i = 0; i < g.rows; ++i)                                                          \
      sum += row_updates_##T(g.values + i * g.columns, g.columns, g.scale * rows[i], columns);    \
    return sum;                                                                                   \
  }                                                                                               \
  template <>                                                                                     \
  void apply_update(const GradientMatrix<T>& g, const T* rows, const T* columns, T rate, T* w) {  \
    for (int64_t i = 0; i < g.rows; ++i)                                                          \
      row_apply_##T(g.values + i * g.columns, g.columns, g.scale * rows[i], columns, rate,        \
                    w + i * g.columns);                                                           \
  }                                                                                               \
  template <>                                                                                     \
  double moment_and_update_squares(const T* g, int64_t n, T scale, T epsilon, T part, T* v) {     \
    return whole_moment_##T(g, n, scale, epsilon, part, v);                                       \
  }                                                                                               \
  template <>                                                                                     \
  void apply_update(const T* g, int64_t n, T scale, const T* v, T rate, T* w) {                   \
    whole_apply_##T(g, n, scale, v, rate, w);                                                     \
  }

MUSTER_ADAFACTOR(float)
MUSTER_ADAFACTOR(double)

}  // namespace muster::inline v0_1::optim::internal
