// Thread safety: a pure function.
#pragma once

#include "muster/distribute/exchange.h"

namespace muster::inline v0_1::distribute::internal {

// Throws InvalidArgument for a mean of whole numbers.
void check_reducible(ReduceOp op, const Tensor& value);

}  // namespace muster::inline v0_1::distribute::internal
