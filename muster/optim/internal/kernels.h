// The formulas of the update rules as plain loops over memory, built without LibTorch so that they
// get their own compiler flags. Thread safety: pure functions of the memory they are given; ranges
// must not overlap.
#pragma once

#include <cstdint>

#include "muster/optim/internal/steps.h"

namespace muster::inline v0_1::optim::internal {

template <typename T>
void sgd(T* weights, const T* gradient, int64_t n, SgdStep<T> step);
template <typename T>
void sgd_momentum(T* weights, const T* gradient, T* velocity, int64_t n, SgdStep<T> step);
template <typename T>
void sgd_nesterov(T* weights, const T* gradient, T* velocity, int64_t n, SgdStep<T> step);
template <typename T>
void adam(T* weights, const T* gradient, T* m, T* v, int64_t n, AdamStep<T> step);
template <typename T>
void adagrad(T* weights, const T* gradient, T* accumulator, int64_t n, AdagradStep<T> step);

}  // namespace muster::inline v0_1::optim::internal
