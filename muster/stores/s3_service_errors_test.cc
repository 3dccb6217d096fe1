// The behaviour of an S3 store when the service, the network or the user errs: errors, sessions,
// endpoints, regions, clocks and waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "muster/base/strings.h"
#include "muster/stores/internal/for_tests.h"
#include "muster/stores/internal/http_client.h"
#include "muster/stores/s3_store.h"
#include "tests/support/s3_stand_in.h"

namespace muster::inline v0_1::stores {
namespace {

using internal::what;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using namespace std::chrono_literals;

// The lines of a log that are warnings.
std::vector<std::string> warnings(const std::string& log) {
  std::vector<std::string> lines;
  for (const std::string& line : split(log, '\n')) {
    if (line.starts_with("W ")) lines.push_back(line);
  }
  return lines;
}

class S3ErrorsTest : public ::testing::Test {
 protected:
  S3StandIn service_;
  std::unique_ptr<FileSystem> files_ = internal::quick_s3_store(service_.environment());
};

TEST_F(S3ErrorsTest, ErrorsSayWhatToDo) {
  EXPECT_THAT(files_->read_file("s3://bucket/none").error().what(),
              AllOf(HasSubstr("NotFound: cannot read 's3://bucket/none'"), HasSubstr("NoSuchKey"),
                    HasSubstr("the bucket 'bucket' is there")));
  EXPECT_THAT(files_->read_file("s3://other/none").error().what(),
              AllOf(HasSubstr("there is no bucket 'other'"), HasSubstr(service_.server().url())));
  const auto denied = internal::quick_s3_store(
                          service_.environment().with("AWS_SECRET_ACCESS_KEY", "not-the-secret"))
                          ->read_file("s3://bucket/f");
  EXPECT_THAT(denied.error().what(),
              AllOf(HasSubstr("SignatureDoesNotMatch"), HasSubstr("AWS_ACCESS_KEY_ID"),
                    HasSubstr(S3StandIn::kKey), Not(HasSubstr("not-the-secret"))));
  EXPECT_THAT(internal::quick_s3_store({{"AWS_ENDPOINT_URL", service_.server().url()},
                                        {"AWS_EC2_METADATA_DISABLED", "true"}})
                  ->read_file("s3://bucket/f")
                  .error()
                  .what(),
              HasSubstr("no credentials were found, and the bucket is not public"));
  EXPECT_THAT(internal::quick_s3_store(
                  service_.environment().with("AWS_ENDPOINT_URL", "http://127.0.0.1:1"))
                  ->read_file("s3://bucket/f")
                  .error()
                  .what(),
              AllOf(HasSubstr("Unavailable"), HasSubstr("check the address and the network")));
}

// Credentials from the environment get no better by trying again.
TEST_F(S3ErrorsTest, ASessionThatHasEndedIsAnErrorAtOnce) {
  service_.require_token("new");
  const auto files =
      internal::quick_s3_store(service_.environment().with("AWS_SESSION_TOKEN", "old"));
  const auto read = files->read_file("s3://bucket/f");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().what(), AllOf(HasSubstr("ExpiredToken"), HasSubstr("AWS_ACCESS_KEY_ID"),
                                         HasSubstr("session has ended"), Not(HasSubstr("tried"))));
  EXPECT_THAT(service_.server().requests(), SizeIs(1));
}

// A source of credentials is asked for new ones once; if they are the same, the error is final.
TEST_F(S3ErrorsTest, ASessionThatCanBeRenewedIs) {
  service_.objects()["f"] = "x";
  service_.require_token("new");
  std::string token = "old";
  std::string next = "new";
  WebServer giver([&](const httplib::Request&, httplib::Response& response) {
    response.body = std::string(R"({"AccessKeyId": ")") + S3StandIn::kKey +
                    R"(", "SecretAccessKey": ")" + S3StandIn::kSecret + R"(", "Token": ")" +
                    std::exchange(token, next) + "\"}";
  });
  const Environment environment{{"AWS_ENDPOINT_URL", service_.server().url()},
                                {"AWS_CONTAINER_CREDENTIALS_FULL_URI", giver.url()},
                                {"AWS_EC2_METADATA_DISABLED", "true"}};
  EXPECT_EQ(internal::quick_s3_store(environment)->read_file("s3://bucket/f").value(), "x");
  EXPECT_THAT(giver.requests(), SizeIs(2));
  token = next = "old";
  const auto read = internal::quick_s3_store(environment)->read_file("s3://bucket/f");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().what(), HasSubstr("the container's credentials"));
  EXPECT_THAT(giver.requests(), SizeIs(4));
}

TEST_F(S3ErrorsTest, EndpointsWithoutASchemeAreRefused) {
  for (const std::string endpoint :
       {"localhost:9000", "ftp://localhost", "http:/localhost", "http:///x"}) {
    try {
      (void)internal::quick_s3_store(service_.environment().with("AWS_ENDPOINT_URL", endpoint));
      ADD_FAILURE() << endpoint;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("'" + endpoint + "'"),
                                      HasSubstr("AWS_ENDPOINT_URL"), HasSubstr("write http://")));
    }
  }
}

// Small requests end in minutes, whatever the server does; large ones have the time they need.
TEST(HttpAttemptTest, TimeFitsWhatIsSentAndReceived) {
  const StoreOptions limits;
  EXPECT_LT(internal::attempt_seconds({}, limits), 120);
  const std::string part(size_t{64} << 20, 'x');
  EXPECT_GT(internal::attempt_seconds({.body = bytes_of(part)}, limits), 2000);
  std::string room(size_t{8} << 20, '\0');
  EXPECT_GT(internal::attempt_seconds({.into = std::as_writable_bytes(std::span(room))}, limits),
            256);
  EXPECT_EQ(internal::attempt_seconds({.attempt_seconds = 3}, limits), 3);
}

TEST_F(S3ErrorsTest, PublicBucketsNeedNoCredentials) {
  service_.set_public(true);
  service_.objects()["f"] = "x";
  const auto files = internal::quick_s3_store(
      {{"AWS_ENDPOINT_URL", service_.server().url()}, {"AWS_EC2_METADATA_DISABLED", "true"}});
  EXPECT_EQ(files->read_file("s3://bucket/f").value(), "x");
  EXPECT_EQ(service_.server().last_header("GET", "Authorization"), "");
}

TEST(S3StoreRegionTest, ABucketElsewhereIsFound) {
  S3StandIn service("eu-south-2");
  service.objects()["f"] = "x";
  S3Options options = S3Options::from(service.environment());
  options.limits = internal::quick_limits();
  const auto files = make_s3_store(options);
  EXPECT_EQ(files->read_file("s3://bucket/f").value(), "x");
  EXPECT_EQ(files->read_file("s3://bucket/f").value(), "x");
  EXPECT_THAT(service.server().requests(), SizeIs(3)) << "it is remembered";
}

// It would become a part of the address that requests go to, and of their headers.
TEST_F(S3ErrorsTest, ARegionIsAName) {
  service_.objects()["f"] = "x";
  for (const char* region : {"evil.example/", "a b", "eu&#13;&#10;X-Header: y", "../x", "EU"}) {
    service_.server().forget_requests();
    service_.server().fail({.status = 400,
                            .body = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>" +
                                    std::string(region) + "</Region></Error>"});
    EXPECT_EQ(files_->read_file("s3://bucket/f").error().kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(service_.server().requests(), SizeIs(1)) << region;
  }
  EXPECT_EQ(files_->read_file("s3://bucket/f").value(), "x");
}

TEST_F(S3ErrorsTest, AClockThatIsWrongIsMadeUpFor) {
  service_.objects()["f"] = "x";
  service_.set_clock_offset(7200);
  EXPECT_EQ(files_->read_file("s3://bucket/f").value(), "x");
  EXPECT_EQ(files_->read_file("s3://bucket/f").value(), "x");
  EXPECT_THAT(service_.server().requests(), SizeIs(3)) << "it is remembered";
}

TEST_F(S3ErrorsTest, WaitsAsLongAsTheServerAsks) {
  ManualClock clock({.sleep_advances = true});
  S3Options options = S3Options::from(service_.environment());
  options.limits = internal::quick_limits();
  options.limits.retry_timeout = Seconds(100);
  options.limits.clock = &clock;
  service_.objects()["f"] = "x";
  // The stand-in uses the machine's clock.
  service_.set_clock_offset(clock.wall_seconds() - system_clock().wall_seconds());
  const auto files = make_s3_store(options);
  service_.server().fail({.status = 503, .headers = {{"Retry-After", "40"}}}, 2);
  const TimePoint before = clock.now();
  EXPECT_EQ(files->read_file("s3://bucket/f").value(), "x");
  EXPECT_GE(to_seconds(clock.now() - before), 80);
  service_.server().fail({.status = 503, .headers = {{"Retry-After", "40"}}}, 9);
  const auto failed = files->read_file("s3://bucket/f");
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().what(), AllOf(HasSubstr("Unavailable"), HasSubstr("tried 3 times")));
}

// A waiting user learns the reason soon and then again and again. However many requests fail at the
// same time, it is said once.
TEST_F(S3ErrorsTest, WhatGoesOnFailingIsSaidEveryFewSeconds) {
  ManualClock clock({.sleep_advances = true});
  S3Options options = S3Options::from(service_.environment());
  options.limits.clock = &clock;
  service_.set_clock_offset(clock.wall_seconds() - system_clock().wall_seconds());
  const auto files = make_s3_store(options);
  service_.server().fail(
      {.status = 500,
       .body = "<Error><Code>InternalError</Code><Message>It is tired</Message></Error>"},
      1000);
  ::testing::internal::CaptureStderr();
  const auto listed = files->list_directory("s3://bucket/");
  const std::vector<std::string> said = warnings(::testing::internal::GetCapturedStderr());
  ASSERT_FALSE(listed.ok());
  EXPECT_THAT(listed.error().message(),
              AllOf(HasSubstr("500 InternalError (It is tired)"), HasSubstr("; tried ")));
  // In 120 s, with 10 to 20 s in between.
  EXPECT_THAT(said, SizeIs(AllOf(::testing::Ge(5u), ::testing::Le(12u))));
  for (const std::string& line : said) {
    EXPECT_THAT(line, AllOf(HasSubstr("cannot list 's3://bucket'"),
                            HasSubstr("500 InternalError (It is tired)"), HasSubstr("at most")));
  }
  EXPECT_THAT(said.front(),
              ::testing::ContainsRegex("it is tried again for (1 min 59|2 min 00) s"));
}

// An error that heals within a second is normal.
TEST_F(S3ErrorsTest, AnErrorThatPassesWithinASecondIsNotLogged) {
  ManualClock clock({.sleep_advances = true});
  S3Options options = S3Options::from(service_.environment());
  options.limits.clock = &clock;
  service_.set_clock_offset(clock.wall_seconds() - system_clock().wall_seconds());
  const auto files = make_s3_store(options);
  ::testing::internal::CaptureStderr();
  service_.server().fail({.status = 500}, 2);
  EXPECT_TRUE(files->list_directory("s3://bucket/").ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::IsEmpty());
  service_.server().fail({.status = 500}, 8);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(files->list_directory("s3://bucket/").ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the server answers again"));
}

// A server that starts anew is not a wrong address.
TEST(S3StoreAwayTest, AServerThatWasThereIsWaitedForInFull) {
  ManualClock clock({.sleep_advances = true});
  auto service = std::make_unique<S3StandIn>();
  service->set_clock_offset(clock.wall_seconds() - system_clock().wall_seconds());
  S3Options options = S3Options::from(service->environment());
  options.limits.clock = &clock;
  const auto files = make_s3_store(options);
  const auto seconds_of_failing = [&](FileSystem& store) {
    const TimePoint before = clock.now();
    const auto listed = store.list_directory("s3://bucket/");
    EXPECT_FALSE(listed.ok());
    EXPECT_EQ(listed.error().kind(), ErrorKind::kUnavailable);
    return to_seconds(clock.now() - before);
  };
  EXPECT_TRUE(files->list_directory("s3://bucket/").ok());
  service.reset();
  EXPECT_GE(seconds_of_failing(*files), 100);
  EXPECT_LE(seconds_of_failing(*make_s3_store(options)), 15) << "one that never saw it";
}

}  // namespace
}  // namespace muster::inline v0_1::stores
