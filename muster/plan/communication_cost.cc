#include "muster/plan/communication_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"

namespace muster::inline v0_1::plan {

BucketOptions choose_buckets(const CommunicationCost& cost, int64_t bytes) {
  if (!(cost.latency >= 0) || !(cost.seconds_per_byte >= 0) || bytes < 0) {
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

}  // namespace muster::inline v0_1::plan
