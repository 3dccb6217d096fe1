#include "muster/plan/straggler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::inline v0_1::plan {
namespace {

// Steps `first` and the `count` - 1 after it, each of so many seconds.
TaskSteps steps(double input, double compute, double communication, int64_t first = 1,
                int64_t count = 10) {
  TaskSteps task;
  for (int64_t s = first; s < first + count; ++s) {
    StepSeconds& step = task.last.emplace_back(StepSeconds{.step = s});
    step.seconds[static_cast<size_t>(Activity::kInput)] = static_cast<float>(input);
    step.seconds[static_cast<size_t>(Activity::kCompute)] = static_cast<float>(compute);
    step.seconds[static_cast<size_t>(Activity::kCommunication)] = static_cast<float>(communication);
  }
  return task;
}

TEST(Straggler, TheOneTheOthersWaitForAndWhere) {
  const std::vector<TaskSteps> tasks{steps(.01, .04, .25), steps(.21, .08, .01),
                                     steps(.01, .05, .24)};
  const auto found = find_straggler(tasks);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->task, 1u);
  EXPECT_EQ(found->where, Activity::kInput);
  EXPECT_NEAR(found->seconds, .21, 1e-6);
  EXPECT_NEAR(found->others, .01, 1e-6);
  EXPECT_NEAR(found->slowdown, .29 / .055, 1e-3);
  EXPECT_EQ(found->text("worker 1"),
            "worker 1 takes 5.3 times as long as the others: input is 210.0 ms a step, and 10.0 ms "
            "in the others");
}

TEST(Straggler, NobodyWhereAllTakeAboutAsLong) {
  EXPECT_FALSE(find_straggler(std::vector<TaskSteps>{steps(.01, .10, .02), steps(.01, .12, .0)}));
  // The network is slow, and nobody's computation.
  EXPECT_FALSE(find_straggler(std::vector<TaskSteps>{steps(0, .010, .5), steps(0, .020, .49)}));
  EXPECT_FALSE(find_straggler(std::vector<TaskSteps>{steps(0, .1, 0)}));
  EXPECT_FALSE(find_straggler({}));
}

TEST(Straggler, AFewStepsAreNoEvidence) {
  EXPECT_FALSE(find_straggler(
      std::vector<TaskSteps>{steps(0, .1, 0), steps(.0, .9, 0, /*first=*/9, /*count=*/2)}));
}

// Steps 11 to 14 are all that the two have in common, and there nobody is slow.
TEST(Straggler, ComparesTheSameSteps) {
  std::vector<TaskSteps> tasks{steps(0, .1, 0, 5), steps(0, .1, 0, 11)};
  for (StepSeconds& step : tasks[0].last) {
    if (step.step < 11) step.seconds[static_cast<size_t>(Activity::kCompute)] = 9;
  }
  EXPECT_FALSE(find_straggler(tasks));
}

TEST(Straggler, AtTheirOwnPaceCommunicationIsItsOwn) {
  const std::vector<TaskSteps> tasks{steps(0, .1, .01, 1), steps(0, .1, .4, 50)};
  EXPECT_FALSE(find_straggler(tasks));
  const auto found = find_straggler(tasks, /*at_own_pace=*/true);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->task, 1u);
  EXPECT_EQ(found->where, Activity::kCommunication);
}

}  // namespace
}  // namespace muster::inline v0_1::plan
