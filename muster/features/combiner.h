// How the rows of a table that one example asks for become one. Thread safety: a value.
#pragma once

namespace muster::inline v0_1::feature_column {

// With weights w (1 where there are none) of rows e: kSum is sum(w e), kMean sum(w e) / sum(w),
// kSqrtn sum(w e) / sqrt(sum(w^2)).
enum class Combiner { kSum, kMean, kSqrtn };

}  // namespace muster::inline v0_1::feature_column
