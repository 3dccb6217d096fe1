// The promises of docs/buckets.md about limits, retries and variables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/stores/internal/for_tests.h"
#include "muster/stores/internal/multipart.h"
#include "muster/stores/s3_store.h"
#include "tests/support/s3_stand_in.h"

namespace muster::inline v0_1::stores {
namespace {

using ::testing::SizeIs;

TEST(DocumentedLimits, AreTheDefaults) {
  const StoreOptions limits = StoreOptions::from({});
  EXPECT_EQ(limits.connect_retry_timeout.count(), 15);
  EXPECT_EQ(limits.stall_timeout.count(), 30);
  EXPECT_EQ(limits.retry_timeout.count(), 120);
  EXPECT_EQ(limits.first_delay.count(), 0.1);
  EXPECT_EQ(limits.longest_delay.count(), 10);
  EXPECT_EQ(limits.block_bytes, size_t{8} << 20);
  EXPECT_EQ(limits.blocks_ahead, 12);
  EXPECT_EQ(limits.read_ahead_bytes, size_t{256} << 20);
  EXPECT_EQ(limits.part_bytes, size_t{8} << 20);
  EXPECT_EQ(limits.parts_in_flight, 16);
}

// Ten thousand parts, which double after each thousand, and of which none has more than 5 GiB.
TEST(DocumentedLimits, AnObjectMayHaveFiveTebibytes) {
  const size_t first = StoreOptions().part_bytes;
  uint64_t all = 0;
  for (int number = 1; number <= 10'000; ++number) {
    const size_t bytes = internal::bytes_of_part(first, number);
    EXPECT_EQ(bytes, first << ((number - 1) / 1000));
    EXPECT_LE(bytes, size_t{5} << 30);
    all += bytes;
  }
  EXPECT_GE(all, uint64_t{5} << 40);
}

TEST(DocumentedLimits, WhatIsTriedAgainAndWhatIsNot) {
  S3StandIn service;
  service.objects()["f"] = "x";
  const auto files = internal::quick_s3_store(service.environment());
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    service.server().forget_requests();
    service.server().fail({.status = status}, 2);
    EXPECT_EQ(files->read_file("s3://bucket/f").value(), "x") << status;
    EXPECT_THAT(service.server().requests(), SizeIs(3)) << status;
  }
  for (const int status : {400, 403, 405, 501, 505}) {
    service.server().forget_requests();
    service.server().fail({.only = "GET", .status = status, .body = "<Error/>"});
    EXPECT_FALSE(files->read_file("s3://bucket/f").ok()) << status;
    EXPECT_THAT(service.server().requests("GET"), SizeIs(1)) << status;
  }
}

TEST(DocumentedLimits, WhichVariableCounts) {
  const Environment none{{"AWS_CONFIG_FILE", "/nowhere/config"},
                         {"AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials"}};
  Environment set = none.with("SSL_CERT_FILE", "ssl");
  EXPECT_EQ(S3Options::from(set).limits.ca_file, "ssl");
  set = set.with("CURL_CA_BUNDLE", "curl");
  EXPECT_EQ(S3Options::from(set).limits.ca_file, "curl");
  set = set.with("AWS_CA_BUNDLE", "aws");
  EXPECT_EQ(S3Options::from(set).limits.ca_file, "aws");
  EXPECT_EQ(StoreOptions::from(set).ca_file, "curl") << "for s3:// alone";
  set = set.with("AWS_ENDPOINT_URL", "http://all").with("AWS_DEFAULT_REGION", "second");
  EXPECT_EQ(S3Options::from(set).endpoint, "http://all");
  EXPECT_EQ(S3Options::from(set).region, "second");
  set = set.with("AWS_ENDPOINT_URL_S3", "http://s3").with("AWS_REGION", "first");
  EXPECT_EQ(S3Options::from(set).endpoint, "http://s3");
  EXPECT_EQ(S3Options::from(set).region, "first");
  EXPECT_TRUE(S3Options::from(set).checksums);
  EXPECT_FALSE(
      S3Options::from(set.with("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")).checksums);
  EXPECT_FALSE(S3Options::from(set).unsigned_http);
  EXPECT_TRUE(S3Options::from(set.with("MUSTER_S3_UNSIGNED_HTTP", "1")).unsigned_http);
}

}  // namespace
}  // namespace muster::inline v0_1::stores
