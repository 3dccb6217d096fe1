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

}  // namespace
}  // namespace muster::inline v0_1::formats
