// What an all-reduce costs, and how large the buckets of gradients should be for it.
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/plan/buckets.h"

namespace muster::inline v0_1::plan {

// An all-reduce of n bytes takes latency + n * seconds_per_byte: the usual model, "alpha + n beta"
// (Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH",
// 2005), with what depends on the number of ranks measured rather than modelled.
struct CommunicationCost {
  double latency = 0;           // seconds
  double seconds_per_byte = 0;  // of the buffer
};

// Buckets for gradients of `bytes` in all. With buckets of b bytes, bytes / b messages pay the
// latency, and the last bucket, which leaves when backward is over, is hidden by nothing:
// (bytes / b) * latency + b * seconds_per_byte is least at b = sqrt(bytes * latency /
// seconds_per_byte). Kept between 128 KB and 64 MB; the first bucket is 256 KB at most. Throws
// InvalidArgument for negative numbers.
BucketOptions choose_buckets(const CommunicationCost& cost, int64_t bytes);

}  // namespace muster::inline v0_1::plan
