// The scalars of several runs on one axis, as a chart draws them: one list of x for all runs, and
// for each run a value at each x. Few points are given as they are. Many are thinned into intervals
// of equal length, where each run keeps its least and its greatest value, in their order.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/board/scalar_series.h"

namespace muster::inline v0_1::board {

// What the x axis shows.
enum class ChartAxis {
  kStep,
  kWall,      // Unix time, seconds
  kRelative,  // seconds since the first point of the run's series
};

struct ChartOptions {
  ChartAxis axis = ChartAxis::kStep;
  int intervals = 300;           // of a thinned chart
  bool logarithmic = false;      // intervals of equal length on a logarithmic axis; x > 0 alone
  std::optional<double> from{};  // the part of the axis that is shown; empty: all
  std::optional<double> to{};
};

// One run's part of a chart.
struct ChartLine {
  // At each x; NaN where the run has no point. Infinities are not here but in `odd`.
  std::vector<double> values{};
  // Of a thinned chart, for each interval: the mean of the run's finite values (NaN without one)
  // and their number, for smoothing.
  std::vector<double> means{};
  std::vector<int64_t> counts{};
  // The places of values that are not finite: x, and NaN or an infinity; at most 1,000.
  std::vector<std::pair<double, float>> odd{};
};

struct ChartTable {
  // Rising. Of a thinned chart, two in each interval: at a quarter and three quarters of it.
  std::vector<double> x{};
  bool is_exact = false;           // the points as they are
  double interval = 0;             // of a thinned chart: the length (of the logarithm, if so asked)
  std::vector<ChartLine> lines{};  // in the order of the series
};

// The x of a bin: of its first and of its last point.
std::pair<double, double> bin_range(const ScalarBin& bin, ChartAxis axis, double first_wall);

// Each series is the bins of one run. If all bins are single points and at most 4 * intervals
// different x are shown, the chart is exact. Where a run has several points of one x, the last
// counts in an exact chart.
ChartTable make_chart(const std::vector<std::span<const ScalarBin>>& series,
                      const ChartOptions& options);

}  // namespace muster::inline v0_1::board
