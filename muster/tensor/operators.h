// The operators of tensors: a + b, 1 - a, a > 0.5. LibTorch's own header of them makes a program
// compile half as long again as Tensor itself does, for the sake of one function; these compute the
// same, and stand aside for LibTorch's where a program includes both.
// Thread safety: as LibTorch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <type_traits>

#include "muster/base/export.h"

// The reference of the API shows what the file is; its reader does not follow the macros below.
#ifndef MUSTER_API_REFERENCE

namespace muster::inline v0_1::operators {

// What is a tensor, or gives one, as Features do.
template <typename T>
inline constexpr bool kTensor = std::is_convertible_v<const T&, const at::Tensor&>;

// Two operands, one of which is a tensor, and the other gives one or is a number.
template <typename X, typename Y>
concept Operands = (std::is_same_v<X, at::Tensor> || std::is_same_v<Y, at::Tensor>)&&(
    kTensor<X> ||
    std::is_convertible_v<const X&, at::Scalar>)&&(kTensor<Y> ||
                                                   std::is_convertible_v<const Y&, at::Scalar>);

// What LibTorch's methods take for it.
inline const at::Tensor& operand(const at::Tensor& x) { return x; }
// A tensor for what gives one, else a number.
template <typename T>
auto operand(const T& x) {
  if constexpr (kTensor<T>) {
    return at::Tensor(static_cast<const at::Tensor&>(x));
  } else {
    return at::Scalar(x);
  }
}

// A new tensor of the form and dtype of `like`, full of `value`.
MUSTER_EXPORT at::Tensor filled_like(const at::Tensor& like, const at::Scalar& value);

}  // namespace muster::inline v0_1::operators

// Where LibTorch's are: the compiler looks for operators of a tensor only there.
namespace at {

// What is on the left decides whether the method takes the operands as they stand.
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
