// The formulas of the update rules as plain loops over memory, built without LibTorch so that they
// get their own compiler flags. Thread safety: pure functions of the memory they are given; ranges
// must not overlap.
#pragma once

#include <array>
#include <cstdint>

#include "muster/optim/internal/formulas.h"

namespace muster::inline v0_1::optim::internal {

// The slots of a formula, in its order; nullptr after them.
template <typename T>
using SlotPointers = std::array<T*, 3>;

// Applies a formula of formulas.h to n weights.
template <typename Formula, typename T>
void update(T* weights, const T* gradient, SlotPointers<T> slots, int64_t n,
            typename Formula::template Step<T> step);

// The sums of squares that norms are made of: exact to double, in an order that follows from n.
template <typename T>
double sum_of_squares(const T* values, int64_t n);
struct LambSums {
  double weights = 0;
  double direction = 0;
};
// The first of LAMB's two passes: writes the moments.
template <typename T>
LambSums lamb_moments(const T* weights, const T* gradient, T* m, T* v, int64_t n, LambStep<T> step);

}  // namespace muster::inline v0_1::optim::internal
