// Points and the centers nearest to them, summed in a step of k-means. Thread safety: pure
// functions.
#pragma once

#include <cstdint>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Returns the rows with length 1; rows of zeros stay.
Tensor normalized(const Tensor& rows);

// Returns the number of the nearest of `centers` [clusters, numbers] for each of `points` [rows,
// numbers]: int64 [rows]. With `cosine` both are normalized.
Tensor nearest_centers(const Tensor& points, const Tensor& centers, bool cosine);

// Returns the distances of points [rows] to centers of their own, both [rows, numbers].
Tensor distances_to(const Tensor& points, const Tensor& centers, bool cosine);

// Returns [clusters + 1, numbers + 1] of float64, one tensor, so that replicas exchange one
// message: the sum of the distances in the corner of row 0; in row c + 1 the sum of the points
// whose `index` is center c, and their number.
Tensor sums_of(const Tensor& points, const Tensor& centers, const Tensor& index, bool cosine,
               int64_t clusters);

}  // namespace muster::inline v0_1::internal
