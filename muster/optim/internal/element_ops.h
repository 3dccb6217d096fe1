// The arithmetic of formulas.h for one weight: plain numbers, each operation rounded once.
// Thread safety: pure functions.
#pragma once

#include <cmath>

namespace muster::inline v0_1::optim::internal {

struct ElementOps {
  template <typename T>
  [[gnu::always_inline]] static T scaled(T x, T factor) {
    return x * factor;
  }
  template <typename T>
  [[gnu::always_inline]] static T product(T x, T factor) {
    return x * factor;
  }
  template <typename T>
  [[gnu::always_inline]] static T square(T x) {
    return x * x;
  }
  template <typename T>
  [[gnu::always_inline]] static T root_plus(T x, T epsilon) {
    return std::sqrt(x) + epsilon;
  }
  template <typename T>
  [[gnu::always_inline]] static void multiply(T& x, T factor) {
    x *= factor;
  }
  template <typename T>
  [[gnu::always_inline]] static void add(T& x, T y) {
    x += y;
  }
  template <typename T>
  [[gnu::always_inline]] static void add_square(T& x, T y) {
    x += y * y;
  }
  template <typename T>
  [[gnu::always_inline]] static void subtract(T& x, T factor, T y) {
    x -= factor * y;
  }
  template <typename T>
  [[gnu::always_inline]] static void approach(T& x, T target, T part) {
    x += (target - x) * part;
  }
  template <typename T>
  [[gnu::always_inline]] static void subtract_quotient(T& x, T factor, T y, T divisor) {
    x -= y * factor / divisor;
  }
};

}  // namespace muster::inline v0_1::optim::internal
