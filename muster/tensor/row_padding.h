// Rows that are added to a short batch, so that a device of XLA needs no new program for it.
// Thread safety: it belongs to one thread.
#pragma once

#include <cstdint>

#include "muster/base/export.h"
#include "muster/tensor/device.h"
#include "muster/tensor/element.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// For batches whose outputs have a row for each row of the batch, which depends on that row alone.
class RowPadding {
 public:
  // Adds rows on devices of XLA alone.
  explicit RowPadding(Device device) : adds_(device.is_xla()) {}

  // Returns `batch`, which has `rows` > 0 examples. If a batch before had more, the last row of
  // each value is repeated up to their number. A value with another number of rows ends the
  // padding.
  Element operator()(const Element& batch, int64_t rows);
  // Returns an output of the last batch without the rows that were added. An output that has no row
  // for each row of a batch ends the padding of batches after it.
  Tensor cut(const Tensor& output);

 private:
  bool adds_;
  int64_t most_ = 0;  // rows of a batch so far
  int64_t rows_ = 0;  // of the last batch, without those that were added
  bool added_ = false;
};

}  // namespace muster::inline v0_1
