#include "muster/summary/histogram.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "muster/base/error.h"

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
    std::transform(positive.rbegin(), positive.rend(), std::back_inserter(*made),
                   [](double limit) { return -limit; });
    made->push_back(0);
    made->insert(made->end(), positive.begin(), positive.end());
    return made;
  }();
  return *limits;
}

// The buckets of `counts`, of which there are as many as limits.
void fill_buckets(const std::vector<double>& counts, formats::Histogram& histogram) {
  const std::vector<double>& limits = bucket_limits();
  for (size_t i = 0; i < limits.size(); ++i) {
    // When several buckets in a row are empty, only the last limit matters.
    if (counts[i] == 0 && i + 1 < limits.size() && counts[i + 1] == 0) continue;
    histogram.limits.push_back(limits[i]);
    histogram.counts.push_back(counts[i]);
  }
}

void add_counts(const formats::Histogram& from, std::vector<double>& to) {
  const std::vector<double>& limits = bucket_limits();
  for (size_t b = 0; b < from.counts.size(); ++b) {
    const auto at = std::lower_bound(limits.begin(), limits.end(), from.limits[b]);
    if (at == limits.end() || *at != from.limits[b]) {
      throw invalid_argument(
          "merge_histograms got a bucket that ends at " + std::to_string(from.limits[b]),
          "give it what make_histogram() gave");
    }
    to[static_cast<size_t>(at - limits.begin())] += from.counts[b];
  }
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
  fill_buckets(counts, histogram);
  return histogram;
}

}  // namespace

formats::Histogram make_histogram(std::span<const float> values) { return count(values); }
formats::Histogram make_histogram(std::span<const double> values) { return count(values); }

formats::Histogram merge_histograms(const formats::Histogram& a, const formats::Histogram& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  formats::Histogram all{.min = std::min(a.min, b.min),
                         .max = std::max(a.max, b.max),
                         .count = a.count + b.count,
                         .sum = a.sum + b.sum,
                         .sum_squares = a.sum_squares + b.sum_squares};
  std::vector<double> counts(bucket_limits().size(), 0);
  add_counts(a, counts);
  add_counts(b, counts);
  fill_buckets(counts, all);
  return all;
}

}  // namespace muster::inline v0_1::summary
