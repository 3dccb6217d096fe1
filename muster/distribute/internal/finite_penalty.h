// The penalty of the weights has to be a number before they are updated.
// Thread safety: a pure function.
#pragma once

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute::internal {

// Returns `penalty`. Throws NonFinite when it is none.
inline double finite_penalty(double penalty) {
  if (std::isfinite(penalty)) return penalty;
  throw Error(ErrorKind::kNonFinite,
              fmt::format("the sum of the regularizers' penalties is {}", penalty));
}

}  // namespace muster::inline v0_1::distribute::internal
