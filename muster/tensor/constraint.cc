#include "muster/tensor/constraint.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

Constraint::Constraint(std::string description, Function function,
                       std::optional<std::vector<int64_t>> axes)
    : description_(std::move(description)), function_(std::move(function)), axes_(std::move(axes)) {
  if (function_ == nullptr) {
    throw invalid_argument(fmt::format("Constraint: \"{}\" has no function", description_),
                           "a default Constraint() is none");
  }
}

bool Constraint::by_rows(int64_t rank) const {
  return axes_ &&
         std::ranges::none_of(*axes_, [rank](int64_t axis) { return axis == 0 || axis == -rank; });
}

Tensor Constraint::operator()(const Tensor& value) const {
  Tensor constrained = function_(value);
  if (!constrained.defined() || constrained.sizes() != value.sizes() ||
      constrained.scalar_type() != value.scalar_type()) {
    throw invalid_argument(fmt::format("the constraint {} gave {} for {}", description_,
                                       describe(constrained), describe(value)),
                           "a constraint keeps shape and dtype");
  }
  return constrained;
}

}  // namespace muster::inline v0_1
