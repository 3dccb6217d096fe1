#include "muster/plan/step_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace muster::inline v0_1::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A replica whose record is written by hand, and looked at once a second.
class Replica {
 public:
  // It does this for so long. Returns what a watch found meanwhile.
  std::vector<LongStep> spend(Activity activity, double seconds) {
    std::vector<LongStep> all;
    now_.activity = activity;
    for (double left = seconds; left > 0; left -= 1) {
      const double part = std::min(left, 1.0);
      spent_.seconds[static_cast<size_t>(activity)] += static_cast<float>(part);
      since_look_ += part;
      if (since_look_ < 1) continue;
      for (LongStep& found : watch_.look({now_}, since_look_)) all.push_back(found);
      since_look_ = 0;
    }
    return all;
  }
  void end_step() {
    spent_.step = ++now_.step;
    if (now_.last.size() == ActivityRecord::kStepsKept) now_.last.erase(now_.last.begin());
    now_.last.push_back(spent_);
    spent_ = {};
  }
  // Steps of these seconds, half of them computation.
  std::vector<LongStep> steps(int count, double seconds) {
    std::vector<LongStep> all;
    for (int step = 0; step < count; ++step) {
      for (const Activity activity : {Activity::kInput, Activity::kCompute}) {
        for (LongStep& found : spend(activity, seconds / 2)) all.push_back(found);
      }
      end_step();
    }
    return all;
  }

 private:
  StepWatch watch_{10};
  ActivityNow now_{.task = "worker 1"};
  StepSeconds spent_{};
  double since_look_ = 0;
};

std::vector<std::string> texts(const std::vector<LongStep>& found) {
  std::vector<std::string> all;
  for (const LongStep& one : found) all.push_back(one.text());
  return all;
}

TEST(StepWatch, ReportsAStepThatHangsMoreAndMoreSeldomAndItsEnd) {
  Replica replica;
  EXPECT_THAT(replica.steps(100, 0.1), IsEmpty());
  EXPECT_THAT(texts(replica.spend(Activity::kCommunication, 60)),
              ElementsAre("step 100 of worker 1 takes 11 s so far; the median of its last steps is "
                          "0.1 s, the longest 0.1 s",
                          "step 100 of worker 1 takes 23 s so far; the median of its last steps is "
                          "0.1 s, the longest 0.1 s",
                          "step 100 of worker 1 takes 47 s so far; the median of its last steps is "
                          "0.1 s, the longest 0.1 s"));
  replica.end_step();
  EXPECT_THAT(texts(replica.steps(30, 0.1)),
              ElementsAre("step 100 of worker 1 has ended after 59 s"));
  // One that took long is not reported for the same length again.
  EXPECT_THAT(replica.spend(Activity::kCommunication, 100), IsEmpty());
}

TEST(StepWatch, IsSilentWhileNoStepIsMade) {
  Replica replica;
  EXPECT_THAT(replica.spend(Activity::kStarting, 1000), IsEmpty());
  // The first step compiles.
  EXPECT_THAT(replica.spend(Activity::kCompute, 300), IsEmpty());
  replica.end_step();
  EXPECT_THAT(replica.steps(2000, 0.1), IsEmpty());
  for (int time = 0; time < 20; ++time) {
    for (const Activity activity :
         {Activity::kSaving, Activity::kEvaluating, Activity::kExporting, Activity::kWaiting}) {
      EXPECT_THAT(replica.spend(activity, 500), IsEmpty());
    }
    EXPECT_THAT(replica.steps(300, 0.1), IsEmpty());
  }
  EXPECT_THAT(replica.spend(Activity::kDone, 1000), IsEmpty());
}

// An hour of simulated load with steps of all lengths, saves, evaluations and pauses.
TEST(StepWatch, RaisesNoFalseAlarmInAnHourOfLoad) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<> seconds(-2, 0.7);
  std::uniform_real_distribution<> uniform;
  Replica replica;
  double passed = 0;
  for (int step = 1; passed < 3600; ++step) {
    const double took = seconds(random) + (uniform(random) < 0.002 ? 6 : 0);
    EXPECT_THAT(replica.steps(1, took), IsEmpty()) << step;
    passed += took;
    if (step % 500 == 0) {
      EXPECT_THAT(replica.spend(Activity::kSaving, 40), IsEmpty());
      EXPECT_THAT(replica.spend(Activity::kEvaluating, 120), IsEmpty());
      passed += 160;
    }
  }
}

TEST(StepWatch, APauseOfTheProcessIsNotAStep) {
  StepWatch watch(10);
  ActivityNow now{.task = "worker 0", .activity = Activity::kCompute};
  for (int step = 0; step < 50; ++step) {
    now.last.push_back({.step = step});
    now.step = step;
    EXPECT_THAT(watch.look({now}, 1), IsEmpty());
  }
  // The machine was suspended.
  EXPECT_THAT(watch.look({now}, 3600), IsEmpty());
  // Records of other replicas are watched by themselves.
  EXPECT_THAT(watch.look({now, {.task = "worker 1", .activity = Activity::kCompute}}, 1),
              IsEmpty());
}

}  // namespace
}  // namespace muster::inline v0_1::plan
