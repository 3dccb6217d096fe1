#include "muster/plan/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "muster/plan/measure_source.h"
#include "muster/plan/save_in_flight.h"

namespace muster::inline v0_1::plan {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::SizeIs;

TEST(ActivityRecord, AStepIsDividedAmongActivitiesWithoutRest) {
  const TimePoint start = std::chrono::steady_clock::now();
  const auto at = [&](int ms) { return start + std::chrono::milliseconds(ms); };
  ActivityRecord record("worker 1");
  record.enter(Activity::kInput, start);
  record.end_step(6, start);
  record.enter(Activity::kCompute, at(30));
  record.enter(Activity::kCommunication, at(50));
  record.enter(Activity::kCompute, at(55));
  record.enter(Activity::kOther, at(60));
  record.end_step(7, at(61));
  const ActivityNow now = record.now();
  EXPECT_EQ(now.task, "worker 1");
  EXPECT_EQ(now.activity, Activity::kOther);
  EXPECT_EQ(now.step, 7);
  ASSERT_THAT(now.last, SizeIs(2));
  const StepSeconds& step = now.last[1];
  EXPECT_EQ(step.step, 7);
  EXPECT_NEAR(step.of(Activity::kInput), 0.030, 1e-6);
  EXPECT_NEAR(step.of(Activity::kCompute), 0.025, 1e-6);
  EXPECT_NEAR(step.of(Activity::kCommunication), 0.005, 1e-6);
  EXPECT_NEAR(step.of(Activity::kOther), 0.001, 1e-6);
  EXPECT_NEAR(step.total(), 0.061, 1e-6);
}

TEST(ActivityRecord, TheWholeHasWhatEveryStepHadAndWhatIsOfNone) {
  const TimePoint start = std::chrono::steady_clock::now();
  const auto at = [&](int ms) { return start + std::chrono::milliseconds(ms); };
  ActivityRecord record;
  record.enter(Activity::kInput, start);
  const double starting = record.now().whole.of(Activity::kStarting);
  constexpr int kSteps = 3 * static_cast<int>(ActivityRecord::kStepsKept);
  for (int step = 0; step < kSteps; ++step) {
    record.enter(Activity::kCompute, at(10 * step + 4));
    record.enter(Activity::kInput, at(10 * step + 10));
    record.end_step(step, at(10 * step + 10));
  }
  record.enter(Activity::kSaving, at(10 * kSteps));
  record.enter(Activity::kDone, at(10 * kSteps + 500));
  record.forget_spent();
  const StepSeconds whole = record.now().whole;
  EXPECT_NEAR(whole.of(Activity::kInput), .004 * kSteps, 1e-5);
  EXPECT_NEAR(whole.of(Activity::kCompute), .006 * kSteps, 1e-5);
  EXPECT_NEAR(whole.of(Activity::kSaving), .5, 1e-5);
  EXPECT_EQ(whole.of(Activity::kStarting), starting);
  record.end_step(kSteps, at(10 * kSteps + 500));
  EXPECT_EQ(record.now().last.back().of(Activity::kSaving), 0);
}

// What a replica does now belongs to the whole before it has ended.
TEST(ActivityRecord, TheWholeGrowsWhileAnActivityLasts) {
  ActivityRecord record;
  record.enter(Activity::kEvaluating, std::chrono::steady_clock::now() - std::chrono::seconds(7));
  const ActivityNow now = record.now();
  EXPECT_GE(now.whole.of(Activity::kEvaluating), 7);
  EXPECT_NEAR(now.whole.of(Activity::kEvaluating), now.seconds, 1e-6);
}

TEST(SaveInFlight, IsTheOneThatBeganLast) {
  EXPECT_FALSE(save_in_flight());
  const SaveInFlight first(200);
  {
    const SaveInFlight second(7);
    EXPECT_EQ(save_in_flight(), 7);
  }
  EXPECT_EQ(save_in_flight(), 200);
}

TEST(ActivityRecord, KeepsTheLastSteps) {
  ActivityRecord record;
  EXPECT_THAT(record.now().last, IsEmpty());
  EXPECT_EQ(record.now().step, -1);
  constexpr int64_t kMade = 3 * ActivityRecord::kStepsKept + 5;
  for (int64_t step = 1; step <= kMade; ++step) record.end_step(step);
  const ActivityNow now = record.now();
  ASSERT_THAT(now.last, SizeIs(ActivityRecord::kStepsKept));
  EXPECT_EQ(now.last.front().step, kMade - static_cast<int64_t>(ActivityRecord::kStepsKept) + 1);
  EXPECT_EQ(now.last.back().step, kMade);
}

TEST(ActivityRecord, AReportIsAnActivity) {
  ActivityRecord record;
  record.report(Phase::kTraining, 4);
  EXPECT_EQ(record.activity(), Activity::kOther);
  EXPECT_EQ(record.now().step, 4);
  record.enter(Activity::kCompute);
  record.report(Phase::kTraining, 5);  // in the middle of a step, which goes on
  EXPECT_EQ(record.activity(), Activity::kCompute);
  record.report(Phase::kSaving, 5);
  EXPECT_EQ(record.activity(), Activity::kSaving);
  record.report(Phase::kEvaluating, 5);
  EXPECT_EQ(record.activity(), Activity::kEvaluating);
  record.report(Phase::kTraining, 5);
  EXPECT_EQ(record.activity(), Activity::kOther);
}

TEST(ActivityRecord, NamesTheBucket) {
  ActivityRecord record;
  record.set_bucket(3, 8);
  EXPECT_EQ(record.now().bucket, 3);
  EXPECT_EQ(record.now().buckets, 8);
  record.set_bucket(0, 0);
  EXPECT_EQ(record.now().bucket, 0);
}

// Each step has seconds that are its number: a reader never sees a mixture of two.
TEST(ActivityRecord, AReaderSeesWholeSteps) {
  ActivityRecord record;
  std::atomic<bool> ends = false;
  std::thread writer([&] {
    TimePoint at = std::chrono::steady_clock::now();
    for (int64_t step = 1; step <= 30'000; ++step) {
      at += std::chrono::microseconds(step);
      record.enter(Activity::kInput, at);
      at += std::chrono::microseconds(step);
      record.end_step(step, at);
    }
    ends = true;
  });
  const auto look = [&] {
    int64_t before = 0;
    for (const StepSeconds& step : record.now().last) {
      ASSERT_GT(step.step, before);
      before = step.step;
      if (step.step == 1) continue;  // it began with the record
      ASSERT_NEAR(step.of(Activity::kInput), 2e-6 * static_cast<double>(step.step), 1e-6)
          << step.step;
    }
  };
  while (!ends) look();
  writer.join();
  look();
  EXPECT_THAT(record.now().last, SizeIs(ActivityRecord::kStepsKept));
}

TEST(ActivityScope, ListsTheReplicasOfTheProcess) {
  EXPECT_THAT(activities(), IsEmpty());
  this_activity().enter(Activity::kCompute);  // nobody reads it
  EXPECT_THAT(activities(), IsEmpty());
  {
    const ActivityScope chief("chief 0");
    std::thread([] {
      const ActivityScope worker("worker 1");
      const InActivity saving(Activity::kSaving);
      {
        const InActivity waiting(Activity::kWaiting);
        EXPECT_EQ(this_activity().activity(), Activity::kWaiting);
      }
      EXPECT_EQ(this_activity().activity(), Activity::kSaving);
      EXPECT_THAT(activities(), ElementsAre(Field(&ActivityNow::task, "chief 0"),
                                            Field(&ActivityNow::activity, Activity::kSaving)));
    }).join();
    EXPECT_THAT(activities(), SizeIs(1));
  }
  EXPECT_THAT(activities(), IsEmpty());
}

// A loop by hand makes its calls with a record that is there before and after them.
TEST(ListedActivity, IsThatOfAThreadWhileItIsOnIt) {
  ListedActivity record("worker 0", "a loop");
  ASSERT_THAT(activities(), SizeIs(1));
  EXPECT_EQ(activities()[0].run, "a loop");
  EXPECT_NE(&this_activity(), &record);
  std::thread([&] {
    const OnActivity on(record);
    EXPECT_EQ(&this_activity(), &record);
    this_activity().end_step(4);
  }).join();
  EXPECT_EQ(activities()[0].step, 4);
  record.enter(Activity::kCompute);
  record.forget_spent();
  record.end_step(5);
  EXPECT_LT(activities()[0].last.back().of(Activity::kStarting), 1e-9);
}

TEST(InCollective, IsCommunicationInAStepAndAWaitBetweenSteps) {
  const ActivityScope scope("worker 0");
  for (const auto& [before, within] : {std::pair(Activity::kCompute, Activity::kCommunication),
                                       std::pair(Activity::kInput, Activity::kCommunication),
                                       std::pair(Activity::kProgram, Activity::kWaiting),
                                       std::pair(Activity::kEvaluating, Activity::kEvaluating),
                                       std::pair(Activity::kSaving, Activity::kSaving)}) {
    this_activity().enter(before);
    {
      const InCollective outer;
      const InCollective inner;
      EXPECT_EQ(this_activity().activity(), within);
    }
    EXPECT_EQ(this_activity().activity(), before);
  }
}

TEST(MeasureSource, IsReadAsLongAsItLives) {
  EXPECT_THAT(measures(), IsEmpty());
  {
    const MeasureSource connections([] { return Measures{{"connections", 3}}; });
    const MeasureSource lag([] { return Measures{{"lag in steps", 7}}; });
    EXPECT_THAT(measures(), ElementsAre(std::pair("connections", 3), std::pair("lag in steps", 7)));
  }
  EXPECT_THAT(measures(), IsEmpty());
}

}  // namespace
}  // namespace muster::inline v0_1::plan
