#include "muster/formats/failure_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::inline v0_1::formats {
namespace {

TEST(FailureReport, IsReadAsWritten) {
  const FailureReport report{.task = "worker 1",
                             .step = 17,
                             .error = "PeerLost: \"x\"\n  hint",
                             .wall_seconds = 1.5e9,
                             .calls = {{.transport = "TCP",
                                        .rank = 1,
                                        .size = 2,
                                        .number = 3,
                                        .call = "barrier #3",
                                        .before = 2.5,
                                        .seconds = 0.5},
                                       {.transport = "TCP",
                                        .rank = 1,
                                        .size = 2,
                                        .number = 4,
                                        .call = "barrier #4",
                                        .before = 2,
                                        .failure = "gone"}}};
  EXPECT_EQ(parse_failure_report(encode_failure_report(report), "x").value(), report);
}

TEST(FailureReport, OtherTextIsCorrupt) {
  for (const char* text :
       {"", "[]", "{}", R"({"format": "muster.failure.1"})", R"({"format": "muster.failure.9"})"}) {
    const auto parsed = parse_failure_report(text, "some/file");
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(parsed.error().message(), ::testing::HasSubstr("some/file"));
  }
}

TEST(FailureReport, ATimeThatNoCalendarShowsIsCorrupt) {
  for (const double time : {-1.0, 1e300}) {
    const auto parsed = parse_failure_report(encode_failure_report({.wall_seconds = time}), "x");
    ASSERT_FALSE(parsed.ok()) << time;
    EXPECT_EQ(parsed.error().kind(), ErrorKind::kCorrupt);
  }
}

// A reader goes through all ranks.
TEST(FailureReport, ARankThatIsNoneIsCorrupt) {
  FailureReport report{.task = "worker 1", .error = "x", .calls = {{.transport = "TCP"}}};
  for (const auto& [rank, size] :
       {std::pair<int64_t, int64_t>(0, int64_t{1} << 60), {2, 2}, {-1, 2}, {0, 0}}) {
    report.calls.front().rank = rank;
    report.calls.front().size = size;
    const auto parsed = parse_failure_report(encode_failure_report(report), "x");
    ASSERT_FALSE(parsed.ok()) << rank << " of " << size;
    EXPECT_EQ(parsed.error().kind(), ErrorKind::kCorrupt);
  }
}

}  // namespace
}  // namespace muster::inline v0_1::formats
