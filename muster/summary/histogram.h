// Counts values into TensorBoard's exponential buckets. Thread safety: pure functions.
#pragma once

#include <span>

#include "muster/formats/event.h"

namespace muster::inline v0_1::summary {

// Counts the values. The limits of buckets grow by a factor of 1.1 from 1e-12 to 1e20, as
// TensorFlow's do, and are mirrored below 0; neighbours that are empty are merged into one. No
// values give one empty bucket. Throws NonFinite, with the index and the value, for the first that
// is NaN or infinite.
formats::Histogram make_histogram(std::span<const float> values);
formats::Histogram make_histogram(std::span<const double> values);

// The histogram of all values of two that make_histogram() gave: counts are added exactly. Throws
// InvalidArgument for buckets with other limits.
formats::Histogram merge_histograms(const formats::Histogram& a, const formats::Histogram& b);

}  // namespace muster::inline v0_1::summary
