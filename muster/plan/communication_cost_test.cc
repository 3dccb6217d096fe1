#include "muster/plan/communication_cost.h"

#include <gtest/gtest.h>

#include <limits>

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

// The cost of one exchange, and of two, on a full network where a byte takes `link` seconds.
double one_exchange(double latency, double link, int n, double bytes) {
  return latency + (n - 1) * link * bytes;
}
double two_exchanges(double latency, double link, int n, double bytes) {
  return 2 * latency + 2.0 * (n - 1) / n * link * bytes;
}

TEST(CommunicationCost, OneExchangeIsTakenWhereItIsFaster) {
  for (const double latency : {5e-6, 50e-6, 2e-3}) {
    for (const double link : {1e-10, 8e-9}) {
      for (const int n : {3, 4, 16, 100}) {
        const CommunicationCost measured{latency, 2.0 * (n - 1) / n * link};
        const auto most = static_cast<double>(most_bytes_in_one_exchange(measured, n));
        EXPECT_GT(most, 0);
        EXPECT_LE(one_exchange(latency, link, n, 0.99 * most),
                  two_exchanges(latency, link, n, 0.99 * most));
        EXPECT_GE(one_exchange(latency, link, n, 1.01 * most + 1),
                  two_exchanges(latency, link, n, 1.01 * most + 1));
      }
    }
  }
}

TEST(CommunicationCost, TwoRanksSendTheSameEitherWay) {
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(most_bytes_in_one_exchange({50e-6, 8e-9}, 2), kMost);
  EXPECT_EQ(most_bytes_in_one_exchange({50e-6, 8e-9}, 1), kMost);
  EXPECT_EQ(most_bytes_in_one_exchange({50e-6, 0}, 4), kMost);
  EXPECT_EQ(most_bytes_in_one_exchange({0, 8e-9}, 4), 0);
  EXPECT_THROW(most_bytes_in_one_exchange({-1, 0}, 4), Error);
  EXPECT_THROW(most_bytes_in_one_exchange({0, 0}, 0), Error);
}

}  // namespace
}  // namespace muster::inline v0_1::plan
