// The examples of one worker, in memory.
// Thread safety: a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::inline v0_1::trees {

// Columns of the same length, and what should be predicted from them.
struct Rows {
  std::vector<std::string> features;        // names, sorted
  std::vector<std::vector<float>> columns;  // [features][rows]; NaN where a value is missing
  std::vector<float> labels;                // [rows]
  std::vector<float> weights;               // [rows], more than 0; empty: all are 1

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

}  // namespace muster::inline v0_1::trees
