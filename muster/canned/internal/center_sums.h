// Points and the centers that are nearest to them: what a step of k-means adds up.
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Gives the rows with length 1; rows of zeros stay.
Tensor normalized(const Tensor& rows);

// Gives the number of the nearest of `centers` [clusters, numbers] for each of `points` [rows,
// numbers]: int64 [rows]. With `cosine` both are normalized.
Tensor nearest_centers(const Tensor& points, const Tensor& centers, bool cosine);

// Gives the distances of points [rows] to centers of their own, both [rows, numbers].
Tensor distances_to(const Tensor& points, const Tensor& centers, bool cosine);

// Gives [clusters + 1, numbers + 1] of float64, one tensor, so that replicas exchange one message:
// the sum of the distances in the corner of row 0; in the row after each center the sum of the
// points whose `index` it is, and how many these are.
Tensor sums_of(const Tensor& points, const Tensor& centers, const Tensor& index, bool cosine,
               int64_t clusters);

}  // namespace muster::inline v0_1::internal
