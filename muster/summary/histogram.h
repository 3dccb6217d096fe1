// Values counted into TensorBoard's exponential buckets. Thread safety: pure functions.
#pragma once

#include <span>

#include "muster/formats/event.h"

namespace muster::inline v0_1::summary {

// Bucket limits grow by a factor of 1.1 from 1e-12 to 1e20, mirrored below 0; runs of empty buckets
// are merged into one. No values give one empty bucket. Throws NonFinite with the index and value
// of the first that is NaN or infinite.
formats::Histogram make_histogram(std::span<const float> values);
formats::Histogram make_histogram(std::span<const double> values);

}  // namespace muster::inline v0_1::summary
