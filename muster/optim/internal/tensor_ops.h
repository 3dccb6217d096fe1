// The arithmetic of formulas.h for whole tensors, on whatever device they are, in as few passes as
// LibTorch's operations allow. These round in an order of their own, so the result is that of
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
