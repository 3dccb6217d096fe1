// Sums of derivatives by bin, of the examples of one node.
// Thread safety: a Histograms object belongs to one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/trees/internal/bins.h"
#include "muster/trees/internal/gradients.h"

namespace muster::inline v0_1::trees {

// Sums for each bin of each feature, at Bins::offsets.
using Histogram = std::vector<Sums>;

// Makes histograms of one worker's rows.
class Histograms {
 public:
  // Both outlive it.
  Histograms(const Bins& bins, const BinnedRows& rows);

  // The sums over `rows`, ascending numbers of rows, written to `out` ([bins.total()]). `packed`
  // has the derivatives of all rows.
  void sum(std::span<const uint32_t> rows, const std::vector<int64_t>& packed, std::span<Sums> out);

 private:
  const Bins& bins_;
  const BinnedRows& rows_;
  std::vector<int64_t> partial_;  // packed sums of at most kSumsOfPacked rows
};

// of -= part: a node without one of its children.
void subtract(const Histogram& part, Histogram* of);

}  // namespace muster::inline v0_1::trees
