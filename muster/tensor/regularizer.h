// A Regularizer is a penalty on the values of a weight, or on the output of a layer, that is added
// to the loss. Ready-made regularizers are in "muster/layers/regularizers.h".
// Thread safety: an immutable value; replicas call its functions at the same time.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

class Constraint;

class MUSTER_EXPORT Regularizer {
 public:
  // Returns the penalty, a scalar.
  using Penalty = std::function<Tensor(const Tensor& value)>;
  // Adds factor * (the derivative of the penalty at `value`) to `gradient`, of the same shape.
  using AddGradient =
      std::function<void(const Tensor& value, const Tensor& gradient, double factor)>;

  // No regularizer.
  Regularizer() = default;
  // Your own regularizer: `penalty` is a function of LibTorch's operations, which autograd
  // differentiates.
  template <typename Function>
  requires(!std::same_as<Function, Regularizer> && !std::same_as<Function, Constraint> &&
           std::is_invocable_r_v<Tensor, const Function&, const Tensor&>)
      Regularizer(Function penalty)  // NOLINT(google-explicit-constructor)
      : Regularizer("a function", std::move(penalty)) {}
  // `description` is one line, equal for equal penalties: replicas compare it. Without
  // `add_gradient` autograd computes the derivative.
  Regularizer(std::string description, Penalty penalty, AddGradient add_gradient = {});

  // Whether there is a regularizer.
  explicit operator bool() const { return penalty_ != nullptr; }
  const std::string& description() const { return description_; }

  // Returns the penalty of `value`; gradients flow back. Throws InvalidArgument if your function
  // does not return a scalar.
  Tensor operator()(const Tensor& value) const;
  // Adds factor * its derivative at `value` to `gradient`, if no graph is recorded. Throws the same
  // errors as the call.
  void add_gradient(const Tensor& value, const Tensor& gradient, double factor) const;

 private:
  std::string description_;
  Penalty penalty_;
  AddGradient add_gradient_;
};

}  // namespace muster::inline v0_1
