// A Constraint changes a weight after every update, to keep a property of it. Ready-made
// constraints are in "muster/layers/constraints.h".
// Thread safety: an immutable value; replicas call its function at the same time.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

class Regularizer;

class MUSTER_EXPORT Constraint {
 public:
  // Returns the new value of the weight, of the same shape. It must not change its argument.
  using Function = std::function<Tensor(const Tensor& value)>;

  // No constraint.
  Constraint() = default;
  // Your own constraint, which gets the whole weight.
  template <typename Own>
  requires(!std::same_as<Own, Regularizer> && !std::same_as<Own, Constraint> &&
           std::is_invocable_r_v<Tensor, const Own&, const Tensor&>)
      Constraint(Own function)  // NOLINT(google-explicit-constructor)
      : Constraint("a function", std::move(function), std::nullopt) {}
  // `description` is one line, equal for equal constraints: replicas compare it. `axes` are those
  // along which the function combines elements, counted from the front or from the back; empty if
  // it changes each element alone, unset if unknown.
  Constraint(std::string description, Function function, std::optional<std::vector<int64_t>> axes);

  // Whether there is a constraint.
  explicit operator bool() const { return function_ != nullptr; }
  const std::string& description() const { return description_; }
  // Whether it changes each row (axis 0) of a weight of `rank` axes independently, so that it may
  // be called with only some rows.
  bool by_rows(int64_t rank) const;

  // Throws InvalidArgument if your function returns another shape or dtype.
  Tensor operator()(const Tensor& value) const;

 private:
  std::string description_;
  Function function_;
  std::optional<std::vector<int64_t>> axes_;
};

}  // namespace muster::inline v0_1
