#include "muster/formats/audit_segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/random.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Steps of four examples each, of one epoch.
AuditSegment segment_of(int64_t attempt, int64_t from, int64_t first, int64_t last,
                        int64_t shift = 0) {
  return {.attempt = attempt,
          .from_step = from,
          .first_step = first,
          .last_step = last,
          .used = {{0, 4 * (first - 1) + shift, 4 * last + shift}},
          .rows = 4 * (last - first + 1)};
}

TEST(AuditSegment, IsReadAsWritten) {
  const AuditSegment segment{.attempt = 3,
                             .from_step = 50,
                             .new_order = true,
                             .task = 1,
                             .tasks = 2,
                             .first_step = 51,
                             .last_step = 60,
                             .used = {{0, 3, 9}, {1, 0, 4}},
                             .left_out = {{1, 4, 6}},
                             .epochs = {{0, 9}},
                             .rows = 10};
  EXPECT_EQ(parse_audit_segment(encode_audit_segment(segment), "x").value(), segment);
  EXPECT_EQ(attempt_of_audit_file(audit_file_name(segment)), 3);
  for (const char* name : {"checkpoint", "x-1-2-task-0-of-1.json", "000003.json", ""})
    EXPECT_EQ(attempt_of_audit_file(name), 0) << name;
}

TEST(AuditSegment, OtherTextIsCorrupt) {
  for (const char* text :
       {"", "{}", "[1]", R"({"format": "muster.audit.1"})", R"({"format": "muster.audit.2"})"}) {
    const auto parsed = parse_audit_segment(text, "some/file");
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(parsed.error().message(), HasSubstr("some/file"));
  }
  AuditSegment backwards = segment_of(1, 0, 1, 2);
  backwards.used[0] = {0, 5, 3};
  EXPECT_FALSE(parse_audit_segment(encode_audit_segment(backwards), "x").ok());
}

TEST(Audit, EachExampleOnceIsClean) {
  AuditSegment last = segment_of(1, 0, 3, 5);
  last.epochs[0] = 20;
  const Audit result = audit({last, segment_of(1, 0, 1, 2)});
  EXPECT_TRUE(result.clean());
  ASSERT_THAT(result.epochs, SizeIs(1));
  EXPECT_EQ(result.epochs[0].once, 20);
  EXPECT_EQ(result.last_step, 5);
}

TEST(Audit, ReplayedStepsReplaceThoseThatWereLost) {
  // Steps 5 to 8 were made, and lost, and made again.
  const Audit result =
      audit({segment_of(1, 0, 1, 4), segment_of(1, 0, 5, 8), segment_of(2, 4, 5, 10)});
  EXPECT_TRUE(result.clean());
  EXPECT_EQ(result.lost_steps, 4);
  EXPECT_EQ(result.epochs[0].once, 40);
  EXPECT_EQ(result.attempts, 2);
}

TEST(Audit, WhatIsUsedTwiceOrNeverIsNamed) {
  // The second start reads two examples too few, and its last step two too many.
  Audit result = audit({segment_of(1, 0, 1, 4), segment_of(2, 4, 5, 8, /*shift=*/2)});
  EXPECT_FALSE(result.clean());
  EXPECT_THAT(result.epochs[0].never, ElementsAre(AuditRange{0, 16, 18}));
  EXPECT_THAT(result.epochs[0].twice, IsEmpty());
  result = audit({segment_of(1, 0, 1, 4), segment_of(2, 4, 5, 8, /*shift=*/-3)});
  EXPECT_THAT(result.epochs[0].twice, ElementsAre(AuditRange{0, 13, 16}));
  EXPECT_EQ(result.epochs[0].once, 13 + 13);
}

TEST(Audit, TheEndOfAnEpochThatHasEndedIsToBeUsed) {
  AuditSegment last = segment_of(1, 0, 1, 4);
  EXPECT_TRUE(audit({last}).clean());
  last.epochs[0] = 17;
  EXPECT_THAT(audit({last}).epochs[0].never, ElementsAre(AuditRange{0, 16, 17}));
}

TEST(Audit, StepsWithoutARecordAndContradictionsAreNamed) {
  Audit result = audit({segment_of(1, 0, 1, 4), segment_of(1, 0, 7, 8)});
  EXPECT_THAT(result.missing_steps, ElementsAre(std::pair<int64_t, int64_t>(5, 6)));
  result = audit({segment_of(1, 0, 1, 4), segment_of(2, 3, 4, 6)});
  EXPECT_THAT(result.doubts, ElementsAre(HasSubstr("inside of the record of steps 1 to 4")));
  AuditSegment fewer = segment_of(1, 0, 1, 4);
  fewer.rows = 15;
  EXPECT_THAT(audit({fewer}).doubts,
              ElementsAre("steps 1 to 4 read 16 examples, and their updates had 15 rows"));
}

TEST(Audit, AnInputThatBeginsAgainIsAnotherOrder) {
  AuditSegment again = segment_of(2, 4, 5, 8, /*shift=*/-16);
  EXPECT_FALSE(audit({segment_of(1, 0, 1, 4), again}).clean());
  again.new_order = true;
  const Audit result = audit({segment_of(1, 0, 1, 4), again, segment_of(3, 8, 9, 9, -16)});
  EXPECT_TRUE(result.clean());
  EXPECT_THAT(result.epochs, SizeIs(2));
}

TEST(Audit, TasksWithDataOfTheirOwnAreJudgedEachForItself) {
  AuditSegment other = segment_of(1, 0, 1, 4);
  AuditSegment one = other;
  one.tasks = other.tasks = 2;
  other.task = 1;
  const Audit result = audit({one, other});
  EXPECT_TRUE(result.clean());
  EXPECT_THAT(result.epochs, SizeIs(2));
}

// Random runs with restarts from any save: clean as they are; of one whose ranges were moved, the
// moved examples are found by another count.
TEST(Audit, FindsWhatACountOfEachExampleFinds) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(derive_key(seed, {id_of("audit")}));
    std::vector<AuditSegment> all, live;
    int64_t step = 0;
    for (int64_t attempt = 1; attempt <= 4; ++attempt) {
      // A start continues after one of the saves.
      const auto keeps = static_cast<size_t>(random.uniform_below(live.size() + 1));
      live.resize(keeps);
      const int64_t from = step = live.empty() ? 0 : live.back().last_step;
      for (int i = 0; i < 3; ++i) {
        const auto last = step + 1 + static_cast<int64_t>(random.uniform_below(3));
        live.push_back(segment_of(attempt, from, step + 1, last));
        if (seed % 2 == 1 && random.uniform() < 0.2) {
          live.back().used[0].begin += 1, live.back().used[0].end += 1;
        }
        all.push_back(live.back());
        step = last;
      }
    }
    std::map<int64_t, int> uses;
    int64_t end = 0;
    for (const AuditSegment& segment : live) {
      for (int64_t at = segment.used[0].begin; at < segment.used[0].end; ++at) ++uses[at];
      end = std::max(end, segment.used[0].end);
    }
    int64_t once = 0, twice = 0, never = 0;
    for (int64_t at = 0; at < end; ++at) ++(uses[at] == 0 ? never : uses[at] == 1 ? once : twice);
    const Audit result = audit(all);
    const auto sum = [](const std::vector<AuditRange>& ranges) {
      int64_t examples = 0;
      for (const AuditRange& range : ranges) examples += range.end - range.begin;
      return examples;
    };
    ASSERT_THAT(result.epochs, SizeIs(1)) << seed;
    EXPECT_EQ(result.epochs[0].once, once) << seed;
    EXPECT_EQ(sum(result.epochs[0].twice), twice) << seed;
    EXPECT_EQ(sum(result.epochs[0].never), never) << seed;
    EXPECT_EQ(result.clean(), twice + never == 0) << seed;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::formats
