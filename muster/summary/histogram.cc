#include "muster/summary/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace muster::inline v0_1::summary {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

const std::vector<double>& bucket_limits() {
  static const auto* const limits = [] {
    auto* made = new std::vector<double>();
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) made->push_back(limit);
    made->push_back(kLargest);
    const std::vector<double> positive = *made;
    made->clear();
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit)
      made->push_back(-*limit);
    made->push_back(0);
    made->insert(made->end(), positive.begin(), positive.end());
    return made;
  }();
  return *limits;
}

template <typename Number>
formats::Histogram count(std::span<const Number> values) {
  const std::vector<double>& limits = bucket_limits();
  std::vector<double> counts(limits.size(), 0);
  formats::Histogram histogram;
  if (!values.empty()) {
    histogram.min = kLargest;
    histogram.max = -kLargest;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    if (!std::isfinite(value)) {
      throw Error(ErrorKind::kNonFinite,
                  "value " + std::to_string(i) + " of a histogram is " + std::to_string(value));
    }
    // This finds the first limit above the value; the largest double belongs to the last bucket.
    const auto bucket = std::upper_bound(limits.begin(), limits.end(), value) - limits.begin();
    counts[static_cast<size_t>(std::min<ptrdiff_t>(bucket, std::ssize(limits) - 1))] += 1;
    histogram.min = std::min(histogram.min, value);
    histogram.max = std::max(histogram.max, value);
    histogram.sum += value;
    histogram.sum_squares += value * value;
  }
  histogram.count = static_cast<double>(values.size());
  for (size_t i = 0; i < limits.size(); ++i) {
    // When several buckets in a row are empty, only the last limit matters.
    if (counts[i] == 0 && i + 1 < limits.size() && counts[i + 1] == 0) continue;
    histogram.limits.push_back(limits[i]);
    histogram.counts.push_back(counts[i]);
  }
  return histogram;
}

}  // namespace

formats::Histogram make_histogram(std::span<const float> values) { return count(values); }
formats::Histogram make_histogram(std::span<const double> values) { return count(values); }

}  // namespace muster::inline v0_1::summary
