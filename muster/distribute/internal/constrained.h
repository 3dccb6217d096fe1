// Weights after their constraints. Thread safety: pure functions.
#pragma once

#include "muster/base/error.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::distribute::internal {

// Returns the result of the variable's constraint for `value`, all of it or some of its rows;
// `value` if there is none. Errors of the constraint also name the variable.
inline Tensor constrained(const VariableSpec& spec, const Tensor& value) {
  if (!spec.constraint) return value;
  try {
    return spec.constraint(value);
  } catch (const Error& error) {
    throw error.with_detail("of the variable " + spec.name);
  }
}

}  // namespace muster::inline v0_1::distribute::internal
