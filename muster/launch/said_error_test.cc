#include "muster/launch/said_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::inline v0_1::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Lines = std::vector<std::string>;

Lines said_in(const Lines& printed) {
  SaidError error;
  for (const std::string& line : printed) error.add(line);
  return error.lines();
}

TEST(SaidErrorTest, IsTheLastOneWithTheLinesThatBelongToIt) {
  const Lines of_log{"E 12:00:00 InvalidArgument: two do not fit", "  missing a", "  hint: take b"};
  const Lines of_command{"error: a.yaml:4:3: no key", "    4 | a", "      | ^", "hint: write b"};
  for (const Lines& error : {of_log, of_command}) {
    for (const Lines& before : {Lines(), Lines{"I 12:00:00 begin", "  x"}, of_log, of_command}) {
      for (const Lines& behind : {Lines(), Lines{"I 12:00:01 end", "  x"}, Lines{"", "  x"}}) {
        Lines all = before;
        all.insert(all.end(), error.begin(), error.end());
        all.insert(all.end(), behind.begin(), behind.end());
        EXPECT_EQ(said_in(all), error);
      }
    }
  }
  EXPECT_THAT(said_in({"hint: x", "Errors: 3", "E = mc2", "{\"level\":\"error\""}), IsEmpty());
}

TEST(SaidErrorTest, IsReadFromTheJsonFormOfTheLog) {
  const std::string error =
      R"({"time":"x","level":"error","message":"NotFound: no data\n  hint: make some"})";
  EXPECT_THAT(said_in({R"({"level":"info","message":"\"error\""})", error, "  not this"}),
              ElementsAre("NotFound: no data", "  hint: make some"));
  EXPECT_TRUE(is_error_line(error));
  EXPECT_EQ(error_words(error), "NotFound: no data");
  for (const char* none : {R"({"level":"info","message":"error"})", R"({"level":"error"})",
                           R"({"level":"error","message":3})", R"(["error"])"})
    EXPECT_FALSE(is_error_line(none)) << none;
}

TEST(SaidErrorTest, OfALongOneTheFirstLinesAndHowItEnds) {
  for (const size_t count : {18u, 19u, 40u, 10'000u}) {
    Lines all{"E 12:00:00 does not fit"};
    for (size_t i = 0; i < count; ++i) all.push_back("  missing " + std::to_string(i));
    all.emplace_back("  caused by: a");
    all.emplace_back("  hint: take b");
    const Lines lines = said_in(all);
    ASSERT_THAT(lines, SizeIs(SaidError::kMostLines));
    EXPECT_EQ(lines.front(), all.front());
    EXPECT_EQ(lines.back(), all.back());
    const size_t shown = 17;
    if (count == 18) {
      EXPECT_EQ(lines[17], "  ... and 2 more");
    } else {
      EXPECT_EQ(lines[17], "  ... and " + std::to_string(count + 1 - shown) + " more");
    }
    EXPECT_EQ(lines[18], "  caused by: a");
  }
  Lines frames{"E 12:00:00 a"};
  for (int i = 0; i < 99; ++i) frames.emplace_back("  frame");
  EXPECT_EQ(said_in(frames).back(), "  ... and 81 more");
}

TEST(SaidErrorTest, ItsWordsAreWithoutTheTime) {
  EXPECT_EQ(error_words("E 12:03:45 NotFound: no data"), "NotFound: no data");
  EXPECT_EQ(error_words("error: no data"), "error: no data");
}

TEST(SaidErrorTest, TellsWhomItFollows) {
  const std::string repeats =
      "E 12:00:00 InvalidArgument: worker 3 failed at step 0 (building): InvalidArgument: no";
  const std::string lost = "E 12:00:00 PeerLost: chief left; see the output of worker 1";
  EXPECT_TRUE(repeats_another(repeats));
  EXPECT_FALSE(blames_another(repeats));
  EXPECT_TRUE(blames_another(lost));
  EXPECT_EQ(task_blamed(repeats), "worker-3");
  EXPECT_EQ(task_blamed(lost), "chief-0");
  EXPECT_EQ(task_blamed("PeerLost: ps 12: gone"), "ps-12");
  EXPECT_EQ(task_blamed("the chief"), "chief-0");
  EXPECT_EQ(task_blamed("the worker died; coworker 3, worker_4, 5"), "");
}

}  // namespace
}  // namespace muster::inline v0_1::launch
