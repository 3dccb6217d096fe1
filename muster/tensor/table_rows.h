// Copies rows out of tables and into them, on the CPU without the cost of LibTorch's operations,
// many of which would be needed for many small tables. Thread safety: pure functions except for the
// memory they write.
#pragma once

#include <cstdint>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Writes the rows `ids`, int64 [n], of `table` one after another into `joined`, a tensor of its
// dtype and device, from element `at` on. Both are contiguous, and the table has rows.
MUSTER_PART_EXPORT void read_rows(const Tensor& table, const Tensor& ids, const Tensor& joined,
                                  int64_t at);
// The other way.
void write_rows(const Tensor& joined, int64_t at, const Tensor& ids, const Tensor& table);

}  // namespace muster::inline v0_1
