// How to encode the index of a category.
#pragma once

namespace muster::inline v0_1 {

// For indices [..., n] below a depth:
enum class OutputMode {
  kInt,       // unchanged: int64 [..., n]
  kOneHot,    // a vector for each, with 1 at its index: [..., n, depth]; [..., 1] becomes [...,
              // depth]
  kMultiHot,  // 1 at each index that occurs along the last axis: [..., depth]
  kCount,     // how often each index occurs along the last axis: [..., depth]
  kTfIdf,     // the same, times the weight of each index: [..., depth]
};

}  // namespace muster::inline v0_1
