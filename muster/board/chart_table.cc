#include "muster/board/chart_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace muster::inline v0_1::board {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMostOdd = 1000;

// A bin on the axis.
struct Placed {
  double begin = 0;
  double end = 0;
  const ScalarBin* bin = nullptr;
};

// The bins of a series that a chart shows.
std::vector<Placed> place(std::span<const ScalarBin> bins, const ChartOptions& options) {
  std::vector<Placed> placed;
  placed.reserve(bins.size());
  const double first_wall = bins.empty() ? 0 : bins.front().first_wall;
  for (const ScalarBin& bin : bins) {
    const auto [begin, end] = bin_range(bin, options.axis, first_wall);
    if (!std::isfinite(begin) || !std::isfinite(end)) continue;
    if (options.from && end < *options.from) continue;
    if (options.to && begin > *options.to) continue;
    if (options.logarithmic && begin <= 0) continue;
    placed.push_back({begin, end, &bin});
  }
  return placed;
}

void add_odd(ChartLine& line, double x, const ScalarBin& bin) {
  if (bin.odd == 0 || line.odd.size() == kMostOdd) return;
  const bool only = bin.odd == bin.count;
  line.odd.emplace_back(x, only ? bin.low : std::numeric_limits<float>::quiet_NaN());
}

// The different x of single points, sorted; empty if there are more than `most`, or a bin is no
// single point.
std::vector<double> exact_places(const std::vector<std::vector<Placed>>& all, size_t most) {
  std::vector<double> places;
  for (const auto& placed : all) {
    const size_t before = places.size();
    for (const Placed& each : placed) {
      if (each.bin->count != 1) return {};
      places.push_back(each.begin);
    }
    std::sort(places.begin() + static_cast<std::ptrdiff_t>(before), places.end());
    std::inplace_merge(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(before),
                       places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    if (places.size() > most) return {};
  }
  return places;
}

ChartTable exact_chart(const std::vector<std::vector<Placed>>& all, std::vector<double> places) {
  ChartTable table{.x = std::move(places), .is_exact = true};
  for (const auto& placed : all) {
    ChartLine line{.values = std::vector<double>(table.x.size(), kNone)};
    for (const Placed& each : placed) {
      const auto at = std::ranges::lower_bound(table.x, each.begin) - table.x.begin();
      line.values[static_cast<size_t>(at)] = each.bin->odd > 0 ? kNone : each.bin->low;
      add_odd(line, each.begin, *each.bin);
    }
    table.lines.push_back(std::move(line));
  }
  return table;
}

// The intervals of a thinned chart.
class Intervals {
 public:
  Intervals(double begin, double end, int count, bool logarithmic)
      : count_(std::max(count, 1)), logarithmic_(logarithmic), begin_(scaled(begin)) {
    length_ = (scaled(end) - begin_) / count_;
    if (length_ <= 0) length_ = 1;
  }
  size_t of(double x) const {
    return static_cast<size_t>(
        std::clamp(std::floor((scaled(x) - begin_) / length_), 0.0, double(count_ - 1)));
  }
  // The x at a part of an interval.
  double at(size_t interval, double part) const {
    const double place = begin_ + (static_cast<double>(interval) + part) * length_;
    return logarithmic_ ? std::exp(place) : place;
  }
  size_t count() const { return static_cast<size_t>(count_); }
  double length() const { return length_; }

 private:
  double scaled(double x) const { return logarithmic_ ? std::log(x) : x; }

  int count_;
  bool logarithmic_;
  double begin_;
  double length_ = 1;
};

ChartLine thinned_line(const std::vector<Placed>& placed, const Intervals& intervals) {
  std::vector<ScalarBin> merged(intervals.count());
  ChartLine line{.values = std::vector<double>(2 * intervals.count(), kNone),
                 .means = std::vector<double>(intervals.count(), kNone),
                 .counts = std::vector<int64_t>(intervals.count(), 0)};
  for (const Placed& each : placed) {
    const double middle = each.begin + (each.end - each.begin) / 2;
    ScalarBin& into = merged[intervals.of(middle)];
    if (into.count == 0) {
      into = *each.bin;
    } else {
      merge_bin(into, *each.bin);
    }
    add_odd(line, middle, *each.bin);
  }
  for (size_t interval = 0; interval < merged.size(); ++interval) {
    const ScalarBin& bin = merged[interval];
    if (bin.odd == bin.count) continue;
    line.values[2 * interval] = bin.low_first ? bin.low : bin.high;
    line.values[2 * interval + 1] = bin.low_first ? bin.high : bin.low;
    line.means[interval] = bin.sum / (bin.count - bin.odd);
    line.counts[interval] = bin.count - bin.odd;
  }
  return line;
}

}  // namespace

std::pair<double, double> bin_range(const ScalarBin& bin, ChartAxis axis, double first_wall) {
  const double origin = axis == ChartAxis::kRelative ? first_wall : 0;
  const bool steps = axis == ChartAxis::kStep;
  const double first = steps ? static_cast<double>(bin.first_step) : bin.first_wall - origin;
  const double last = steps ? static_cast<double>(bin.last_step) : bin.last_wall - origin;
  return {std::min(first, last), std::max(first, last)};
}

ChartTable make_chart(const std::vector<std::span<const ScalarBin>>& series,
                      const ChartOptions& options) {
  std::vector<std::vector<Placed>> all;
  double begin = std::numeric_limits<double>::infinity(), end = -begin;
  for (const auto& bins : series) {
    all.push_back(place(bins, options));
    for (const Placed& each : all.back()) {
      begin = std::min(begin, each.begin);
      end = std::max(end, each.end);
    }
  }
  if (begin > end) {
    ChartTable table{.is_exact = true};
    table.lines.resize(series.size());
    return table;
  }
  std::vector<double> places =
      exact_places(all, static_cast<size_t>(std::max(options.intervals, 1)) * 4);
  if (!places.empty()) return exact_chart(all, std::move(places));
  if (options.from) begin = std::max(begin, *options.from);
  if (options.to) end = std::min(end, *options.to);
  const Intervals intervals(begin, end, options.intervals, options.logarithmic);
  ChartTable table{.interval = intervals.length()};
  for (size_t interval = 0; interval < intervals.count(); ++interval) {
    table.x.push_back(intervals.at(interval, 0.25));
    table.x.push_back(intervals.at(interval, 0.75));
  }
  for (const auto& placed : all) table.lines.push_back(thinned_line(placed, intervals));
  return table;
}

}  // namespace muster::inline v0_1::board
