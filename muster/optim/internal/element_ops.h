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
  [[gnu::always_inline]] static T root(T x) {
    return std::sqrt(x);
  }
  template <typename T>
  [[gnu::always_inline]] static T root_of_sum(T x, T epsilon) {
    return std::sqrt(x + epsilon);
  }
  template <typename T>
  [[gnu::always_inline]] static T power(T x, T exponent) {
    return std::pow(x, exponent);
  }
  template <typename T>
  [[gnu::always_inline]] static T absolute(T x) {
    return std::abs(x);
  }
  template <typename T>
  [[gnu::always_inline]] static T sign(T x) {
    return static_cast<T>(x > 0) - static_cast<T>(x < 0);
  }
  template <typename T>
  [[gnu::always_inline]] static T larger(T x, T y) {
    return x > y ? x : y;
  }
  template <typename T>
  [[gnu::always_inline]] static T not_negative(T x) {
    return x > 0 ? x : T{0};
  }
  // Returns the addend that brings x into [-bound, bound]: 0 if it is there already.
  template <typename T>
  [[gnu::always_inline]] static T into_bounds(T x, T bound) {
    return (x > bound ? bound : (x < -bound ? -bound : x)) - x;
  }
  // 0 / 0 is 0.
  template <typename T>
  [[gnu::always_inline]] static T quotient_or_zero(T x, T divisor) {
    return x == 0 ? T{0} : x / divisor;
  }
  template <typename T>
  [[gnu::always_inline]] static void assign(T& x, T y) {
    x = y;
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
