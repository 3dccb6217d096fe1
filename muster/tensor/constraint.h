// A Constraint changes a weight behind every update, so that it keeps a form. Ready-made ones are
// in "muster/layers/constraints.h".
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
  // Gives what the weight becomes, of the same shape. It must not write what it is given.
  using Function = std::function<Tensor(const Tensor& value)>;

  // There is none.
  Constraint() = default;
  // One of your own, which is given the whole weight.
  template <typename Own>
  requires(!std::same_as<Own, Regularizer> && !std::same_as<Own, Constraint> &&
           std::is_invocable_r_v<Tensor, const Own&, const Tensor&>)
      Constraint(Own function)  // NOLINT(google-explicit-constructor)
      : Constraint("a function", std::move(function), std::nullopt) {}
  // `description` is one line, equal for equal constraints: replicas compare it. `axes` are those
  // along which elements are looked at together, counted from the front or from the back; none of
  // them, where each element is changed by itself. Without a value nobody knows.
  Constraint(std::string description, Function function, std::optional<std::vector<int64_t>> axes);

  // Whether there is one.
  explicit operator bool() const { return function_ != nullptr; }
  const std::string& description() const { return description_; }
  // Whether it changes each row (axis 0) of a weight of `rank` axes by itself, so that it may be
  // given a few rows alone.
  bool by_rows(int64_t rank) const;

  // Throws InvalidArgument when a function of one's own gives another shape or dtype.
  Tensor operator()(const Tensor& value) const;

 private:
  std::string description_;
  Function function_;
  std::optional<std::vector<int64_t>> axes_;
};

}  // namespace muster::inline v0_1
