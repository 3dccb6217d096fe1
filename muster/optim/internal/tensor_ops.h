// The arithmetic of formulas.h for whole tensors, on whatever device they are, in as few passes as
// LibTorch's operations allow. These round in an order of their own, so the result equals
// ElementOps up to the last bits. Thread safety: pure functions of the tensors.
#pragma once

#include "muster/tensor/libtorch.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::optim::internal {

struct TensorOps {
  // May be `x` itself, which is not to be written.
  static Tensor scaled(const Tensor& x, double factor) { return factor == 1.0 ? x : x.mul(factor); }
  static Tensor product(const Tensor& x, double factor) { return x.mul(factor); }
  static Tensor square(const Tensor& x) { return x.square(); }
  static Tensor root_plus(const Tensor& x, double epsilon) { return x.sqrt().add_(epsilon); }
  static Tensor root(const Tensor& x) { return x.sqrt(); }
  static Tensor root_of_sum(const Tensor& x, double epsilon) { return x.add(epsilon).sqrt_(); }
  static Tensor power(const Tensor& x, double exponent) { return x.pow(exponent); }
  static Tensor absolute(const Tensor& x) { return x.abs(); }
  static Tensor sign(const Tensor& x) { return x.sign(); }
  static Tensor larger(const Tensor& x, const Tensor& y) { return at::maximum(x, y); }
  static Tensor not_negative(const Tensor& x) { return x.clamp_min(0); }
  static Tensor into_bounds(const Tensor& x, double bound) {
    return x.clamp(-bound, bound).sub_(x);
  }
  static Tensor quotient_or_zero(const Tensor& x, const Tensor& divisor) {
    return x.div(divisor).masked_fill_(x.eq(0), 0);
  }
  static void assign(const Tensor& x, const Tensor& y) { x.copy_(y); }
  static void multiply(const Tensor& x, double factor) { x.mul_(factor); }
  static void add(const Tensor& x, const Tensor& y) { x.add_(y); }
  static void add_square(const Tensor& x, const Tensor& y) { x.addcmul_(y, y); }
  static void subtract(const Tensor& x, double factor, const Tensor& y) { x.sub_(y, factor); }
  static void approach(const Tensor& x, const Tensor& target, double part) {
    x.lerp_(target, part);
  }
  static void subtract_quotient(const Tensor& x, double factor, const Tensor& y,
                                const Tensor& divisor) {
    x.addcdiv_(y, divisor, -factor);
  }
};

}  // namespace muster::inline v0_1::optim::internal
