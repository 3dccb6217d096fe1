// The cost of an all-reduce, and the best size of gradient buckets for it. Thread safety: pure
// functions.
#pragma once

#include <cstdint>

#include "muster/plan/buckets.h"

namespace muster::inline v0_1::plan {

// An all-reduce of n bytes takes latency + n * seconds_per_byte: the usual model, "alpha + n beta"
// (Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH",
// 2005), with the dependence on the number of ranks measured rather than modelled.
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

// Up to how many bytes `ranks` sum fastest in one exchange, where each sends all of its buffer to
// every other, rather than in two, where each sums one part of it and hands the sum out. With t
// seconds_per_byte of the two exchanges, a rank sends 2 (n - 1) / n bytes a byte in them and n - 1
// in the one: latency + n / 2 * t * bytes is at most 2 * latency + t * bytes up to
// latency / (t * (n / 2 - 1)). Two ranks send the same either way: no limit, the largest int64.
// Throws InvalidArgument for negative figures and for no ranks.
int64_t most_bytes_in_one_exchange(const CommunicationCost& cost, int ranks);

}  // namespace muster::inline v0_1::plan
