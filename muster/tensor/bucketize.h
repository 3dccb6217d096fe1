// Numbers as the buckets they lie in. Thread safety: a pure function.
#pragma once

#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Returns for each number how many of `boundaries`, which ascend, are at most as large: int64 of
// the shape of `numbers`, from 0 to boundaries.size(); NaN gives boundaries.size(). float32 is
// compared as float32, all else as float64. A traced model computes the same.
MUSTER_PART_EXPORT Tensor bucketize(const Tensor& numbers, const std::vector<double>& boundaries);

}  // namespace muster::inline v0_1
