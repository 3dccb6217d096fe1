// The operators of tensors: a + b, 1 - a, a > 0.5. LibTorch's own header for them makes a program
// take half as long again to compile as Tensor itself; these compute the same, and LibTorch's are
// used in a program that includes both.
// Thread safety: as LibTorch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <type_traits>

#include "muster/base/export.h"

// The API reference describes this file; its parser does not understand the macros below.
#ifndef MUSTER_API_REFERENCE

namespace muster::inline v0_1::operators {

// Whether a type is a tensor or converts to one, as Features do.
template <typename T>
inline constexpr bool kTensor = std::is_convertible_v<const T&, const at::Tensor&>;

// Two operands: one is a tensor, the other converts to a tensor or is a number.
template <typename X, typename Y>
concept Operands = (std::is_same_v<X, at::Tensor> || std::is_same_v<Y, at::Tensor>)&&(
    kTensor<X> ||
    std::is_convertible_v<const X&, at::Scalar>)&&(kTensor<Y> ||
                                                   std::is_convertible_v<const Y&, at::Scalar>);

// The form in which LibTorch's methods take the operand.
inline const at::Tensor& operand(const at::Tensor& x) { return x; }
// A tensor if it converts to one, else a number.
template <typename T>
auto operand(const T& x) {
  if constexpr (kTensor<T>) {
    return at::Tensor(static_cast<const at::Tensor&>(x));
  } else {
    return at::Scalar(x);
  }
}

// Returns a new tensor with the shape and dtype of `like`, filled with `value`.
MUSTER_EXPORT at::Tensor filled_like(const at::Tensor& like, const at::Scalar& value);

}  // namespace muster::inline v0_1::operators

// In LibTorch's namespace: the compiler looks for operators of a tensor only there.
namespace at {

// The left operand decides whether the method can take the operands in this order.
#define MUSTER_TENSOR_OPERATOR(op, method, reversed)                                      \
  template <typename X, typename Y>                                                       \
  requires muster::operators::Operands<X, Y> Tensor operator op(const X& x, const Y& y) { \
    if constexpr (muster::operators::kTensor<X>) {                                        \
      return muster::operators::operand(x).method(muster::operators::operand(y));         \
    } else {                                                                              \
      return reversed;                                                                    \
    }                                                                                     \
  }

MUSTER_TENSOR_OPERATOR(+, add, y.add(Scalar(x)))
MUSTER_TENSOR_OPERATOR(*, mul, y.mul(Scalar(x)))
MUSTER_TENSOR_OPERATOR(-, sub, muster::operators::filled_like(y, x).sub_(y))
MUSTER_TENSOR_OPERATOR(/, div, muster::operators::filled_like(y, x).div_(y))
MUSTER_TENSOR_OPERATOR(%, remainder, muster::operators::filled_like(y, x).remainder_(y))
MUSTER_TENSOR_OPERATOR(&, bitwise_and, y.bitwise_and(Scalar(x)))
MUSTER_TENSOR_OPERATOR(|, bitwise_or, y.bitwise_or(Scalar(x)))
MUSTER_TENSOR_OPERATOR(^, bitwise_xor, y.bitwise_xor(Scalar(x)))
MUSTER_TENSOR_OPERATOR(<, lt, y.gt(Scalar(x)))
MUSTER_TENSOR_OPERATOR(<=, le, y.ge(Scalar(x)))
MUSTER_TENSOR_OPERATOR(>, gt, y.lt(Scalar(x)))
MUSTER_TENSOR_OPERATOR(>=, ge, y.le(Scalar(x)))
MUSTER_TENSOR_OPERATOR(==, eq, y.eq(Scalar(x)))
MUSTER_TENSOR_OPERATOR(!=, ne, y.ne(Scalar(x)))
#undef MUSTER_TENSOR_OPERATOR

}  // namespace at

#endif  // MUSTER_API_REFERENCE
