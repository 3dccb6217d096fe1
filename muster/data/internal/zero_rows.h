// Batches without rows, for replicas that have none left. Thread safety: pure functions.
#pragma once

#include "muster/tensor/element.h"

namespace muster::inline v0_1::data::internal {

// The element with zero rows in place of what it has.
Element without_rows(const Element& batch);

// After so many elements that cannot be read, the search for one that shows the shapes of a batch
// ends: data without end may have none.
inline constexpr int kMostUnreadable = 1000;

}  // namespace muster::inline v0_1::data::internal
