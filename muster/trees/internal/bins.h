// Values as small numbers: each feature is cut where its quantiles are.
// Thread safety: pure functions; all replicas call make_bins() together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/distribute/exchange.h"
#include "muster/trees/internal/rows.h"

namespace muster::inline v0_1::trees {

// Bin 0 holds missing values, bin b > 0 the values up to upper[b - 1] that are in no bin before.
inline constexpr int64_t kMaxBins = 256;

// Where the features are cut.
struct Bins {
  std::vector<std::vector<double>> upper{};  // [features], ascending; at most 255 each
  std::vector<bool> category{};              // [features]
  // Place of a feature's first bin among the bins of all features; one entry more than features.
  std::vector<uint32_t> offsets{};

  size_t features() const { return upper.size(); }
  size_t total() const { return offsets.back(); }
};

// The bins of a worker's rows, twice: a histogram takes all of a row, a split one of many rows.
struct BinnedRows {
  int64_t rows = 0;
  size_t features = 0;
  std::vector<uint8_t> bins = {};     // [rows, features]
  std::vector<uint8_t> columns = {};  // [features, rows]

  // The bins of one feature, by row.
  const uint8_t* column(size_t feature) const {
    return columns.data() + feature * static_cast<size_t>(rows);
  }
};

// Cuts each feature of all replicas' rows into at most 255 bins. A feature of at most 255 values
// has one bin for each; of others, the upper ends are the values where the sum of weights from
// below passes 1/255, 2/255, ... of the whole. They are exact: floats, taken as ordered 32-bit
// numbers, are counted by their first 16 bits, then those around a quantile by 8 more, and by 8
// more; doubles in the same way, 8 bits at a time. Counts are whole numbers, so bins do not depend
// on how rows are divided or ordered. `category`: those features have a bin for each value; throws
// InvalidArgument, naming the feature, if these are more than 255.
Bins make_bins(const Rows& rows, const std::vector<bool>& category, distribute::Exchange& exchange);
// REQUIRES: `bins` were made of these rows, and maybe others.
BinnedRows bin_rows(const Rows& rows, const Bins& bins);

}  // namespace muster::inline v0_1::trees
