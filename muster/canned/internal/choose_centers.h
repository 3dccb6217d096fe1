// Chooses centers of clusters among points. Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/base/random.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Returns `count` of the points [rows, numbers], each at most once and equally likely; all of them
// if there are not more.
Tensor random_centers(const Tensor& points, int64_t count, RandomKey key);

// Chooses `count` of the points by k-means++: for each except the first, it draws 1 + `retries`
// points with probabilities proportional to the squared distance to the nearest chosen one, and
// takes the point after which the sum of these distances is the least. Source: Arthur and
// Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007. REQUIRES: there are at
// least `count` points.
Tensor plus_plus_centers(const Tensor& points, int64_t count, int64_t retries, RandomKey key);

}  // namespace muster::inline v0_1::internal
