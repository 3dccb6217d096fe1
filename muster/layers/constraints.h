// Makes constraints, which change a layer's weights after every update, with Keras's formulas.
// `axis` lists the axes along which a norm (the root of the sum of squares) is computed: {0} for
// each column of a Dense kernel [in, out], {0, 1, 2} for each filter of a Conv2D kernel. Thread
// safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/constraint.h"

namespace muster::inline v0_1::constraints {

// Shortens vectors with a norm above max_value to it: w * min(norm, max_value) / (norm + 1e-7)
// (Srivastava et al., 2014). Throws InvalidArgument unless max_value is finite and at least 0, and
// for an axis that is empty or named twice; when applied, for an axis that the weight does not
// have.
MUSTER_EXPORT Constraint max_norm(double max_value = 2, std::vector<int64_t> axis = {0});

// Sets negative values to 0.
MUSTER_EXPORT Constraint non_neg();

// Scales vectors to the norm 1: w / (norm + 1e-7). Throws as max_norm() does.
MUSTER_EXPORT Constraint unit_norm(std::vector<int64_t> axis = {0});

// Options of min_max_norm().
struct MinMaxNormOptions {
  double min_value = 0;
  double max_value = 1;  // at least min_value
  double rate = 1;       // how far to move to the nearest allowed norm, in [0, 1]
  std::vector<int64_t> axis = {0};
};
// Moves norms to between min_value and max_value: w * (rate * clip(norm, min_value, max_value) + (1
// - rate) * norm) / (norm + 1e-7). Throws InvalidArgument for options out of range, and as
// max_norm() does.
MUSTER_EXPORT Constraint min_max_norm(MinMaxNormOptions options = {});

}  // namespace muster::inline v0_1::constraints
