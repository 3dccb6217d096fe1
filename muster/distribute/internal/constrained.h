// Weights after their constraints. Thread safety: pure functions.
#pragma once

#include "muster/base/error.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::distribute::internal {

// Gives what the variable's constraint makes of `value`, all of it or some of its rows; `value`
// where there is none. What the constraint throws also names the variable.
inline Tensor constrained(const VariableSpec& spec, const Tensor& value) {
  if (!spec.constraint) return value;
  try {
    return spec.constraint(value);
  } catch (const Error& error) {
    throw error.with_detail("of the variable " + spec.name);
  }
}

}  // namespace muster::inline v0_1::distribute::internal
