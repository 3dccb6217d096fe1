#include "muster/launch/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "muster/base/error.h"

namespace muster::inline v0_1::launch {
namespace {

using testing::ElementsAre;
using namespace std::chrono_literals;

TEST(Subprocess, KeepsBothStreamsAndTheEnd) {
  const CompletedProcess ran = run_to_end(
      {"/bin/sh", "-c", "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; exit 7"}, 30s);
  EXPECT_EQ(ran.status.code, 7);
  EXPECT_EQ(ran.out.size(), 300000u);
  EXPECT_EQ(ran.err.size(), 300000u);
  EXPECT_FALSE(ran.timed_out);
  EXPECT_EQ(run_to_end({"sh", "-c", "kill -9 $$"}, 30s).status.signal, SIGKILL);
  EXPECT_THROW(run_to_end({"/nowhere/at/all"}, 30s), Error);
}

TEST(Subprocess, EndsAtTheDeadline) {
  for (const char* script : {"echo early; exec sleep 60", "exec >&- 2>&-; exec sleep 60"}) {
    const CompletedProcess ran = run_to_end({"/bin/sh", "-c", script}, 300ms);
    EXPECT_TRUE(ran.timed_out);
    EXPECT_EQ(ran.status.signal, SIGKILL);
  }
}

TEST(Subprocess, HandsOnLineByLineUntilNobodyWantsThem) {
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  const CompletedProcess ran = run_by_lines(
      {"sh", "-c", "printf 'one\\n\\ntwo'; echo why >&2; exit 3"}, keep, [] { return false; });
  EXPECT_THAT(lines, ElementsAre("one", "", "two"));
  EXPECT_EQ(ran.status.code, 3);
  EXPECT_EQ(ran.err, "why\n");
  EXPECT_FALSE(ran.timed_out);

  lines.clear();
  const CompletedProcess stopped =
      run_by_lines({"sh", "-c", "echo first; exec sleep 60"}, keep, [&] { return !lines.empty(); });
  EXPECT_TRUE(stopped.timed_out);
  EXPECT_THAT(lines, ElementsAre("first"));
}

}  // namespace
}  // namespace muster::inline v0_1::launch
