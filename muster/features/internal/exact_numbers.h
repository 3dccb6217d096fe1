// Numbers of features that float32 may not tell apart: identifiers, dates such as 20180131, times
// in seconds. Thread safety: pure functions, except for the line that is said once.
#pragma once

#include <string>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::feature_column::internal {

// What a normalizer_fn and boundaries are given: integers of 32 and 64 bits and doubles as float64,
// all else as float32.
Tensor exact_numbers(const Tensor& given);

// The numbers as float32, as layers take them. A warning says once of a column that some of them
// are large and become others.
Tensor as_floats(const Tensor& exact, const std::string& column);

// Says once that the feature holds such numbers, where the column's dtype is none that a request or
// a tf.Example holds them in.
void check_dtype_of_requests(const Tensor& exact, DType dtype, const std::string& column);

}  // namespace muster::inline v0_1::feature_column::internal
