#include "muster/plan/communication_cost.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::inline v0_1::plan {
namespace {

double exposed(const CommunicationCost& cost, int64_t bytes, double bucket) {
  return static_cast<double>(bytes) / bucket * cost.latency + bucket * cost.seconds_per_byte;
}

TEST(CommunicationCost, NoOtherSizeExposesLess) {
  for (const double latency : {1e-6, 60e-6, 1e-3}) {
    for (const double seconds_per_byte : {1e-10, 1e-9, 1e-7}) {
      for (const int64_t bytes : {1'400'000, 100'000'000, 2'000'000'000}) {
        const CommunicationCost cost{latency, seconds_per_byte};
        const auto bucket = static_cast<double>(choose_buckets(cost, bytes).bucket_bytes);
        for (const double other : {bucket / 2, bucket * 2}) {
          if (other < 128 * 1024 || other > 64 * 1024 * 1024) continue;
          EXPECT_LE(exposed(cost, bytes, bucket), exposed(cost, bytes, other))
              << latency << " " << seconds_per_byte << " " << bytes;
        }
      }
    }
  }
}

TEST(CommunicationCost, BucketsStayWithinBounds) {
  EXPECT_EQ(choose_buckets({1e-6, 1e-3}, 1000).bucket_bytes, 128 * 1024);
  EXPECT_EQ(choose_buckets({1e-6, 1e-3}, 1000).first_bucket_bytes, 128 * 1024);
  EXPECT_EQ(choose_buckets({1, 1e-12}, 1'000'000'000).bucket_bytes, 64 * 1024 * 1024);
  EXPECT_EQ(choose_buckets({1e-6, 0}, 1'000'000).bucket_bytes, 64 * 1024 * 1024);
  EXPECT_EQ(choose_buckets({0, 0}, 0).first_bucket_bytes, 256 * 1024);
  EXPECT_THROW(choose_buckets({-1, 0}, 10), Error);
  EXPECT_THROW(choose_buckets({0, -1}, 10), Error);
  EXPECT_THROW(choose_buckets({0, 0}, -10), Error);
}

}  // namespace
}  // namespace muster::inline v0_1::plan
