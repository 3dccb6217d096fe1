// Chooses centers of clusters among points. Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/base/random.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Gives `count` of the points [rows, numbers], each at most once and equally likely; all of them
// where there are no more.
Tensor random_centers(const Tensor& points, int64_t count, RandomKey key);

// Gives `count` of the points by k-means++: for each but the first, 1 + `retries` are drawn with
// probabilities proportional to the squared distance to the nearest one that was chosen, and the
// one is taken after which the sum of these distances is the least. Source: Arthur and
// Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007. REQUIRES: there are as
// many points.
Tensor plus_plus_centers(const Tensor& points, int64_t count, int64_t retries, RandomKey key);

}  // namespace muster::inline v0_1::internal
