// Numbers of features that float32 may not distinguish: identifiers, dates such as 20180131, times
// in seconds. Thread safety: pure functions, except for the line that is logged once.
#pragma once

#include <string>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::feature_column::internal {

// The numbers for a normalizer_fn and for boundaries: integers of 32 and 64 bits and doubles as
// float64, all others as float32.
Tensor exact_numbers(const Tensor& given);

// The numbers as float32, as layers take them. A warning says once of a column that some of them
// are large and become others.
Tensor as_floats(const Tensor& exact, const std::string& column);

// Warns once that the feature holds such numbers, if the column's dtype differs from the one in
// which a request or a tf.Example holds them.
void check_dtype_of_requests(const Tensor& exact, DType dtype, const std::string& column);

}  // namespace muster::inline v0_1::feature_column::internal
