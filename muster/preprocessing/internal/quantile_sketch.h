// Finds quantiles of more numbers than fit into memory.
// Thread safety: belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster::inline v0_1::internal {

// Holds up to a block of numbers as they are. Of each full block it keeps 2 / epsilon numbers of
// equal weight, so that a rank is off by at most epsilon times the count. Where blocks begin
// depends only on the stream: however it is cut into batches, the result has the same bits.
class QuantileSketch {
 public:
  static constexpr size_t kBlock = size_t{1} << 20;

  // REQUIRES: 0 < epsilon < 1.
  explicit QuantileSketch(double epsilon, size_t block = kBlock);

  // REQUIRES: they are finite.
  void add(std::span<const double> values);
  int64_t count() const { return count_; }
  // Returns the bins - 1 numbers that cut the added numbers into `bins` parts of equal count,
  // ascending: the quantiles 1 / bins, 2 / bins, ..., between two numbers on a line as
  // numpy.interp. If fewer numbers than bins were added, all except the largest. REQUIRES: bins >=
  // 1, count() > 0.
  std::vector<double> boundaries(int64_t bins) const;

 private:
  struct Weighted {
    double value;
    int64_t weight;
  };
  void summarize();

  const int64_t kept_;  // of a block
  const size_t block_;
  int64_t count_ = 0;
  std::vector<double> values_;       // since the last full block
  std::vector<Weighted> summaries_;  // of the blocks before
};

}  // namespace muster::inline v0_1::internal
