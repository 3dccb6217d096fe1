// A Regularizer is a penalty on the values of a weight, or on what a layer gives, that joins the
// loss. Ready-made ones are in "muster/layers/regularizers.h".
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
  // Gives the penalty, a scalar.
  using Penalty = std::function<Tensor(const Tensor& value)>;
  // Adds factor * (the derivative of the penalty at `value`) to `gradient`, of the same shape.
  using AddGradient =
      std::function<void(const Tensor& value, const Tensor& gradient, double factor)>;

  // There is none.
  Regularizer() = default;
  // One of your own: `penalty` is a function of LibTorch's operations, which autograd derives.
  template <typename Function>
  requires(!std::same_as<Function, Regularizer> && !std::same_as<Function, Constraint> &&
           std::is_invocable_r_v<Tensor, const Function&, const Tensor&>)
      Regularizer(Function penalty)  // NOLINT(google-explicit-constructor)
      : Regularizer("a function", std::move(penalty)) {}
  // `description` is one line, equal for equal penalties: replicas compare it. Autograd derives
  // the penalty where there is no `add_gradient`.
  Regularizer(std::string description, Penalty penalty, AddGradient add_gradient = {});

  // Whether there is one.
  explicit operator bool() const { return penalty_ != nullptr; }
  const std::string& description() const { return description_; }

  // Gives the penalty of `value`; gradients flow back. Throws InvalidArgument when a function of
  // one's own gives no scalar.
  Tensor operator()(const Tensor& value) const;
  // Adds factor * its derivative at `value` to `gradient`, where no graph is recorded. Throws as
  // the call does.
  void add_gradient(const Tensor& value, const Tensor& gradient, double factor) const;

 private:
  std::string description_;
  Penalty penalty_;
  AddGradient add_gradient_;
};

}  // namespace muster::inline v0_1
