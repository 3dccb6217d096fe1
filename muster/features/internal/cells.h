// The values of a categorical feature while it is resolved. Thread safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::inline v0_1::feature_column::internal {

// Rows of equal width, in which cells may be empty. A cell holds an id, a hash, or another value
// that its maker defines.
struct Cells {
  int64_t rows = 0;
  int64_t width = 0;
  std::vector<int64_t> values;   // [rows * width]
  std::vector<uint8_t> present;  // the same; 0: the cell is empty

  Cells() = default;
  // Makes empty cells.
  Cells(int64_t rows, int64_t width)
      : rows(rows),
        width(width),
        values(static_cast<size_t>(rows * width), -1),
        present(static_cast<size_t>(rows * width), 0) {}
  void set(int64_t at, int64_t value) {
    values[static_cast<size_t>(at)] = value;
    present[static_cast<size_t>(at)] = 1;
  }
};

}  // namespace muster::inline v0_1::feature_column::internal
