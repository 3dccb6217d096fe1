// Batches without rows, for replicas that have none left. Thread safety: pure functions.
#pragma once

#include "muster/tensor/element.h"

namespace muster::inline v0_1::data::internal {

// A batch of the same form with zero rows.
Element without_rows(const Element& batch);

// The search for an element that shows the shapes of a batch ends after this many that cannot be
// read: data without end may have no other.
inline constexpr int kMostUnreadable = 1000;

}  // namespace muster::inline v0_1::data::internal
