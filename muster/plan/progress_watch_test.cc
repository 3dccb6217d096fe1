#include "muster/plan/progress_watch.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1::plan {
namespace {

constexpr Patience kPatience{.progress = 30, .save = 100, .busy = 1000};

ProgressWatch training(int members) {
  ProgressWatch watch(members, kPatience, Phase::kBuilding, 0);
  for (int member = 0; member < members; ++member) watch.report(member, Phase::kTraining, 5, 0);
  return watch;
}

TEST(ProgressWatch, ATaskThatTrainsMustTakeSteps) {
  ProgressWatch watch = training(3);
  EXPECT_FALSE(watch.find_stuck({0, 2}, 10, 40)) << "counted from the moment somebody waits";
  const auto stuck = watch.find_stuck({0, 2}, 10, 40.5);
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->member, 1);
  EXPECT_DOUBLE_EQ(stuck->seconds, 30.5);
  EXPECT_EQ(stuck->phase, Phase::kTraining);
  EXPECT_EQ(stuck->step, 5);
  watch.report(1, Phase::kTraining, 6, 40.5);
  EXPECT_FALSE(watch.find_stuck({0, 2}, 10, 70));
}

TEST(ProgressWatch, NobodyIsBlamedWhileSomebodyIsBusy) {
  for (Phase phase : {Phase::kBuilding, Phase::kEvaluating}) {
    ProgressWatch watch = training(3);
    watch.report(0, phase, 5, 0);
    EXPECT_FALSE(watch.find_stuck({2}, 0, 500));
    watch.report(0, Phase::kTraining, 5, 501);
    EXPECT_FALSE(watch.find_stuck({2}, 0, 530)) << "the wait of the one who trains begins at 501";
    const auto stuck = watch.find_stuck({0, 2}, 0, 532);
    ASSERT_TRUE(stuck);
    EXPECT_EQ(stuck->member, 1);
  }
}

TEST(ProgressWatch, AReportBeforeItArrivedMakesATaskNotBusy) {
  ProgressWatch watch = training(2);
  watch.report(0, Phase::kEvaluating, 5, 0);
  EXPECT_TRUE(watch.find_stuck({0}, 1, 32));
}

TEST(ProgressWatch, ASaveHasALimitOfItsOwn) {
  ProgressWatch watch = training(3);
  watch.report(2, Phase::kSaving, 5, 10);
  EXPECT_FALSE(watch.find_stuck({0}, 0, 109)) << "who trains is not blamed meanwhile";
  const auto stuck = watch.find_stuck({0}, 0, 111);
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->member, 2);
  EXPECT_EQ(stuck->phase, Phase::kSaving);
}

TEST(ProgressWatch, ATaskThatBuildsOrEvaluatesHasALongLimit) {
  for (Phase phase : {Phase::kBuilding, Phase::kEvaluating}) {
    ProgressWatch watch = training(3);
    watch.report(1, phase, 5, 10);
    EXPECT_FALSE(watch.find_stuck({0}, 0, 10 + kPatience.busy));
    const auto stuck = watch.find_stuck({0}, 0, 11 + kPatience.busy);
    ASSERT_TRUE(stuck);
    EXPECT_EQ(stuck->member, 1);
    EXPECT_EQ(stuck->complaint(),
              phase == Phase::kBuilding ? "building took more than" : "evaluating took more than");
  }
}

TEST(ProgressWatch, ATaskThatIsAwayIsBusyInEachPhase) {
  ProgressWatch watch = training(2);
  watch.set_away(1, true, 0);
  EXPECT_FALSE(watch.find_stuck({0}, 0, 500));
  watch.report(1, Phase::kSaving, 5, 500);
  EXPECT_FALSE(watch.find_stuck({0}, 0, 900));
  watch.report(1, Phase::kTraining, 5, 900);
  watch.set_away(1, false, 900);
  EXPECT_FALSE(watch.find_stuck({0}, 0, 930));
  EXPECT_TRUE(watch.find_stuck({0}, 0, 931));
}

TEST(ProgressWatch, ARemovedTaskIsNeitherBusyNorStuck) {
  ProgressWatch watch = training(3);
  watch.report(2, Phase::kEvaluating, 5, 0);
  watch.remove(2);
  const auto stuck = watch.find_stuck({0}, 0, 31);
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->member, 1);
  watch.remove(1);
  EXPECT_FALSE(watch.find_stuck({0}, 0, 31));
}

TEST(ProgressWatch, APauseOfTheOwnerIsForgiven) {
  ProgressWatch watch = training(2);
  watch.forgive(60, 60);
  EXPECT_FALSE(watch.find_stuck({0}, 0, 90));
  EXPECT_TRUE(watch.find_stuck({0}, 0, 91));
}

}  // namespace
}  // namespace muster::inline v0_1::plan
