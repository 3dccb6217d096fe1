// Ids as numbers: looked up in a table and combined, or counted. All of it is tensor operations
// that do not depend on the number of rows, so a trace of it is right for any batch.
// Thread safety: pure functions.
#pragma once

#include <functional>
#include <optional>

#include "muster/features/combiner.h"
#include "muster/features/internal/column.h"

namespace muster::inline v0_1::feature_column::internal {

// Returns the rows of a table for flat ids: int64 [n] -> [n, width].
using RowsOfIds = std::function<Tensor(const Tensor& ids)>;

// Combines the rows that each example asks for: [batch, width], zeros if there is no id. Ids below
// 0 do not count, nor, unless the combiner is kSum, ids with a weight of 0 or less. Only ids that
// count are looked up. Rows longer than `max_norm` are shortened to it. Ids [batch, steps, values]
// of a sequence give [batch, steps, width].
Tensor combined_rows(const ColumnValues& given, Combiner combiner, const RowsOfIds& rows,
                     std::optional<double> max_norm = {});

// Returns how often each id is in an example, or the sum of its weights: float32 [batch, buckets].
// Ids outside of [0, buckets) do not count. In a sequence they are counted for each step.
Tensor counted_ids(const ColumnValues& given, int64_t buckets);

}  // namespace muster::inline v0_1::feature_column::internal
