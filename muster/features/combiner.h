// How to combine the table rows of one example. Thread safety: a value.
#pragma once

namespace muster::inline v0_1::feature_column {

// For rows e with weights w (1 without weights): kSum is sum(w e), kMean sum(w e) / sum(w), kSqrtn
// sum(w e) / sqrt(sum(w^2)).
enum class Combiner { kSum, kMean, kSqrtn };

}  // namespace muster::inline v0_1::feature_column
