// What becomes of the number that stands for a category.
#pragma once

namespace muster::inline v0_1 {

// Of numbers [..., n] below a depth:
enum class OutputMode {
  kInt,       // the numbers as they are: int64 [..., n]
  kOneHot,    // each alone, 1 in its place: [..., n, depth]; [..., 1] gives [..., depth]
  kMultiHot,  // 1 in the place of each that is among the last axis: [..., depth]
  kCount,     // how often each is among the last axis: [..., depth]
  kTfIdf,     // the same, times the weight of each: [..., depth]
};

}  // namespace muster::inline v0_1
