#include "muster/train/next_step.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1::internal {
namespace {

const std::string kSignal = StepWish{.signal = true, .end = true, .newcomers = true}.text();
const std::string kEnd = StepWish{.end = true, .newcomers = true}.text();
const std::string kNewcomers = StepWish{.newcomers = true}.text();
const std::string kNone = StepWish().text();

// Of a run that can spare one task.
NextStep next_of(const std::vector<std::string>& wishes, int task = 0, int locals = 1) {
  return next_step(wishes, locals, task, [](int leaving) { return leaving <= 1; });
}

TEST(NextStep, TheRunContinuesUnlessAReplicaWantsSomethingElse) {
  EXPECT_EQ(next_of({kNone, kNone}), NextStep::kStep);
  EXPECT_EQ(next_of({kNewcomers, kNone}), NextStep::kRegroup);
  EXPECT_EQ(next_of({kNewcomers, kEnd}), NextStep::kEnd);
}

TEST(NextStep, ATaskLeavesWhereItCanBeSpared) {
  EXPECT_EQ(next_of({kNewcomers, kSignal, kNone}, 1), NextStep::kLeave);
  EXPECT_EQ(next_of({kNewcomers, kSignal, kNone}, 2), NextStep::kStepWithout);
  EXPECT_EQ(next_of({kNone, kSignal, kSignal}, 1), NextStep::kEnd);
  // The chief leads every group.
  EXPECT_EQ(next_of({kSignal, kNone, kNone}, 1), NextStep::kEnd);
}

TEST(NextStep, ASignalCountsWhenAllReplicasOfTheTaskKnowIt) {
  EXPECT_EQ(next_of({kNone, kNone, kSignal, kNone}, 1, 2), NextStep::kStep);
  EXPECT_EQ(next_of({kNone, kNone, kSignal, kSignal}, 1, 2), NextStep::kLeave);
  EXPECT_EQ(next_of({kNone, kNone, kSignal, kSignal}, 0, 2), NextStep::kStepWithout);
}

}  // namespace
}  // namespace muster::inline v0_1::internal
