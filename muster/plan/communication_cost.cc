#include "muster/plan/communication_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"

namespace muster::inline v0_1::plan {

namespace {

bool makes_sense(const CommunicationCost& cost) {
  return cost.latency >= 0 && cost.seconds_per_byte >= 0;
}

}  // namespace

BucketOptions choose_buckets(const CommunicationCost& cost, int64_t bytes) {
  if (!makes_sense(cost) || bytes < 0) {
    throw invalid_argument(fmt::format("no buckets for {} bytes, {} s and {} s a byte", bytes,
                                       cost.latency, cost.seconds_per_byte));
  }
  constexpr double kLeast = 128 * 1024;
  constexpr double kMost = 64 * 1024 * 1024;
  const double best =
      cost.seconds_per_byte > 0
          ? std::sqrt(static_cast<double>(bytes) * cost.latency / cost.seconds_per_byte)
          : kMost;
  BucketOptions options;
  options.bucket_bytes = static_cast<int64_t>(std::clamp(best, kLeast, kMost));
  options.first_bucket_bytes = std::min(options.first_bucket_bytes, options.bucket_bytes);
  return options;
}

int64_t most_bytes_in_one_exchange(const CommunicationCost& cost, int ranks) {
  if (!makes_sense(cost) || ranks < 1) {
    throw invalid_argument(fmt::format("no exchange between {} ranks, {} s and {} s a byte", ranks,
                                       cost.latency, cost.seconds_per_byte));
  }
  const double more_for_a_byte = cost.seconds_per_byte * (0.5 * ranks - 1);
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  if (more_for_a_byte <= 0) return kMost;
  const double bytes = cost.latency / more_for_a_byte;
  return bytes < 9e18 ? static_cast<int64_t>(bytes) : kMost;
}

}  // namespace muster::inline v0_1::plan
