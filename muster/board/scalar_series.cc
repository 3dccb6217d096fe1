#include "muster/board/scalar_series.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace muster::inline v0_1::board {

ScalarBin bin_of(int64_t step, double wall, float value) {
  const bool finite = std::isfinite(value);
  return {.first_step = step,
          .last_step = step,
          .first_wall = wall,
          .last_wall = wall,
          .sum = finite ? value : 0.0,
          .low = value,
          .high = value,
          .count = 1,
          .odd = finite ? 0U : 1U};
}

void merge_bin(ScalarBin& into, const ScalarBin& next) {
  const bool has_numbers = into.odd < into.count, next_has_numbers = next.odd < next.count;
  if (!has_numbers && next_has_numbers) {
    into.low = next.low;
    into.high = next.high;
    into.low_first = next.low_first;
  } else if (has_numbers && next_has_numbers) {
    const bool lower = next.low<into.low, higher = next.high> into.high;
    if (lower && higher) {
      into.low_first = next.low_first;
    } else if (lower || higher) {
      into.low_first = higher;
    }
    into.low = std::min(into.low, next.low);
    into.high = std::max(into.high, next.high);
  }
  into.last_step = next.last_step;
  into.last_wall = next.last_wall;
  into.sum += next.sum;
  into.count += next.count;
  into.odd += next.odd;
}

ScalarSeries::ScalarSeries(size_t most_bins)
    : most_bins_(std::max<size_t>(most_bins, 2)), last_(std::numeric_limits<float>::quiet_NaN()) {}

void ScalarSeries::add(int64_t step, double wall, float value) {
  const ScalarBin point = bin_of(step, wall, value);
  ++count_;
  last_ = value;
  if (!bins_.empty() && bins_.back().count < points_per_bin_) {
    merge_bin(bins_.back(), point);
    return;
  }
  if (bins_.size() == most_bins_) {
    size_t kept = 0;
    for (size_t bin = 0; bin < bins_.size(); bin += 2) {
      if (bin + 1 < bins_.size()) merge_bin(bins_[bin], bins_[bin + 1]);
      bins_[kept++] = bins_[bin];
    }
    bins_.resize(kept);
    points_per_bin_ *= 2;
    // An odd number of bins leaves one that takes more points.
    if (bins_.back().count < points_per_bin_) {
      merge_bin(bins_.back(), point);
      return;
    }
  }
  bins_.push_back(point);
}

void ScalarSeries::drop_from(int64_t step) {
  std::erase_if(bins_, [step](const ScalarBin& bin) { return bin.first_step >= step; });
  count_ = 0;
  for (ScalarBin& bin : bins_) {
    bin.last_step = std::min(bin.last_step, step - 1);
    count_ += bin.count;
  }
}

}  // namespace muster::inline v0_1::board
