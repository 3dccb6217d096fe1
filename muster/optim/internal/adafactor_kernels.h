// The passes of Adafactor as plain loops over memory, built as kernels.h is. Sums are made in
// double, in an order that follows from the shape. Thread safety: pure functions of the memory they
// are given; ranges must not overlap.
#pragma once

#include <cstdint>

namespace muster::inline v0_1::optim::internal {

// A matrix of gradients, row by row; each counts as many times as `scale` says.
template <typename T>
struct GradientMatrix {
  const T* values{};
  int64_t rows{}, columns{};
  T scale{};
};

// Writes the sums of g * g over each row, and adds those over each column to `columns`.
template <typename T>
void sum_squares(const GradientMatrix<T>& g, double* rows, double* columns);
// The sum of the squares of u = g * rows[i] * columns[j].
template <typename T>
double sum_update_squares(const GradientMatrix<T>& g, const T* rows, const T* columns);
// w -= rate * u
template <typename T>
void apply_update(const GradientMatrix<T>& g, const T* rows, const T* columns, T rate, T* w);

// Without factors: v += (g * g + epsilon - v) * part; the sum of the squares of u = g / sqrt(v).
template <typename T>
double moment_and_update_squares(const T* g, int64_t n, T scale, T epsilon, T part, T* v);
// w -= rate * u
template <typename T>
void apply_update(const T* g, int64_t n, T scale, const T* v, T rate, T* w);

}  // namespace muster::inline v0_1::optim::internal
