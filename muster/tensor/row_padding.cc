#include "muster/tensor/row_padding.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

Element RowPadding::operator()(const Element& batch, int64_t rows) {
  rows_ = rows;
  for (const Value& value : batch.values()) adds_ &= value.rows() == rows;
  added_ = adds_ && rows < most_;
  if (!added_) {
    most_ = std::max(most_, rows);
    return batch;
  }
  std::vector<int64_t> numbers(static_cast<size_t>(most_), rows - 1);
  std::iota(numbers.begin(), numbers.begin() + rows, 0);
  return batch.transform([&](const Value& value) { return value.gather(numbers); });
}

Tensor RowPadding::cut(const Tensor& output) {
  if (added_) return output.narrow(0, 0, rows_);
  if (output.dim() == 0 || output.size(0) != rows_) adds_ = false;
  return output;
}

}  // namespace muster::inline v0_1
