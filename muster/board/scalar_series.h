// The points of one scalar of one run, in bounded memory: at most 2,048 bins. While there are fewer
// points, each bin is one point. Beyond that, two neighbours become one bin, which keeps the least
// and the greatest value, so that no peak is lost. Thread safety: as a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::inline v0_1::board {

// Neighbouring points of a series, in the order in which they were written.
struct ScalarBin {
  int64_t first_step = 0;
  int64_t last_step = 0;
  double first_wall = 0;  // Unix time, seconds
  double last_wall = 0;
  double sum = 0;  // of the finite values
  // Of the finite values; of a bin without one, its value: NaN or an infinity.
  float low = 0;
  float high = 0;
  uint32_t count = 0;     // of points
  uint32_t odd = 0;       // of points whose value is not finite
  bool low_first = true;  // the least value was written before the greatest
};

class ScalarSeries {
 public:
  // `most_bins`: at least 2.
  explicit ScalarSeries(size_t most_bins = 2048);

  // Adds a point after the others.
  void add(int64_t step, double wall, float value);
  // Drops the points of this step and of later ones, as a run does that starts again from a
  // checkpoint. A bin of several points, of which some are dropped, stays with those that it has.
  void drop_from(int64_t step);

  const std::vector<ScalarBin>& bins() const { return bins_; }
  // The number of points that were added and not dropped.
  int64_t count() const { return count_; }
  // Whether each bin is one point.
  bool is_exact() const { return points_per_bin_ == 1; }
  // The value that was added last; NaN before the first.
  float last() const { return last_; }

 private:
  size_t most_bins_;
  std::vector<ScalarBin> bins_;
  uint32_t points_per_bin_ = 1;
  int64_t count_ = 0;
  float last_;
};

// Adds `next`, which follows, to a bin.
void merge_bin(ScalarBin& into, const ScalarBin& next);
// A bin of one point.
ScalarBin bin_of(int64_t step, double wall, float value);

}  // namespace muster::inline v0_1::board
