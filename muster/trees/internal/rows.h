// The examples of one worker, in memory.
// Thread safety: a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::inline v0_1::trees {

// Columns of the same length, and the values to be predicted from them.
struct Rows {
  std::vector<std::string> features{};        // names, sorted
  std::vector<std::vector<float>> columns{};  // [features][rows]; NaN where a value is missing
  // Columns whose numbers float32 does not distinguish: [features], true for these, whose values
  // are in `doubles` in place of `columns`. Both are empty if there is none.
  std::vector<bool> in_double = {};
  std::vector<std::vector<double>> doubles = {};
  std::vector<float> labels{};   // [rows]
  std::vector<float> weights{};  // [rows], more than 0; empty: all are 1

  bool is_in_double(size_t feature) const {
    return feature < in_double.size() && in_double[feature];
  }
  double value(size_t feature, size_t row) const {
    return is_in_double(feature) ? doubles[feature][row] : columns[feature][row];
  }
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

}  // namespace muster::inline v0_1::trees
