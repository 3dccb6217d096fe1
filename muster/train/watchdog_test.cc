#include "muster/train/internal/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "muster/plan/activity.h"

namespace muster::inline v0_1::internal {
namespace {

using plan::Activity;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Thirty steps, of which each takes so many seconds in these activities.
std::vector<plan::StepSeconds> thirty_steps(double input, double compute) {
  std::vector<plan::StepSeconds> all;
  for (int step = 1; step <= 30; ++step) {
    plan::StepSeconds one{.step = step};
    one.seconds[static_cast<size_t>(Activity::kInput)] = static_cast<float>(input);
    one.seconds[static_cast<size_t>(Activity::kCompute)] = static_cast<float>(compute);
    all.push_back(one);
  }
  return all;
}

Watchdog::Options quick() { return {.floor = 0.3, .look_every = 0.05, .looks_to_compare = 2}; }

// The log while `work` runs, with the steps of one replica of this thread before it.
template <typename Work>
std::string log_of(const Watchdog::Options& options, Work work) {
  ::testing::internal::CaptureStderr();
  {
    const plan::ActivityScope scope("worker 0");
    plan::ActivityRecord& record = plan::this_activity();
    record.set_example(30, 2, 96);
    TimePoint at = std::chrono::steady_clock::now();
    for (int step = 1; step <= 30; ++step) {
      record.enter(Activity::kCompute, at);
      at += std::chrono::milliseconds(10);
      record.end_step(step, at);
    }
    const Watchdog watchdog(options);
    work(record);
  }
  return ::testing::internal::GetCapturedStderr();
}

__attribute__((noinline)) void wait_in_a_step(const std::atomic<bool>& over) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!over && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST(Watchdog, SaysWhatEachTaskDoesAndWhere) {
  Watchdog::Options options = quick();
  options.compares = true;
  // A report asks for the others once; what it says of them ends the wait.
  std::atomic<int> asked = 0;
  std::atomic<bool> over = false;
  options.looks_to_compare = 1'000'000;
  options.others = [&] {
    if (++asked == 2) over = true;
    OtherTask other{.collective = "all_reduce #7 of 250 float32", .age = 1};
    other.now = {.task = "worker 1", .activity = Activity::kInput, .seconds = 31, .step = 30};
    return std::vector{other};
  };
  const std::string log = log_of(options, [&](plan::ActivityRecord& record) {
    record.enter(Activity::kCommunication);
    record.set_bucket(2, 3);
    wait_in_a_step(over);
  });
  EXPECT_THAT(
      log, AllOf(HasSubstr("step 31 of worker 0 takes"), HasSubstr("worker 0 does: communication"),
                 HasSubstr("after step 30; bucket 2 of 3; the input was at epoch 2, example 96 in "
                           "step 30"),
                 HasSubstr("worker 1 did, 1 s ago: input for 31 s, after step 30; not ended: "
                           "all_reduce #7 of 250 float32"),
                 HasSubstr("the others wait for worker 1 (input)"),
                 HasSubstr("stacks of this process:"), HasSubstr("wait_in_a_step")));
}

TEST(Watchdog, IsSilentWhileARunSavesOrEvaluates) {
  const std::string log = log_of(quick(), [&](plan::ActivityRecord& record) {
    for (const Activity activity : {Activity::kSaving, Activity::kEvaluating}) {
      record.enter(activity);
      // Longer than the floor: nothing else ends a wait for what must not come.
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
  });
  EXPECT_EQ(log, "");
}

TEST(Watchdog, NamesATaskThatIsSlowAllTheTimeOnce) {
  Watchdog::Options options = quick();
  options.compares = true;
  std::atomic<int> asked = 0;
  std::atomic<bool> over = false;
  options.others = [&] {
    if (++asked == 6) over = true;
    OtherTask slow, quick, dead{.age = 60, .silent = true};
    slow.now = {.task = "worker 1", .step = 30, .last = thirty_steps(0.2, 0.01)};
    quick.now = {.task = "worker 2", .step = 30, .last = thirty_steps(0, 0.01)};
    dead.now = {.task = "worker 3", .step = 30, .last = thirty_steps(2, 0.01)};
    return std::vector{slow, quick, dead};
  };
  const std::string log = log_of(options, [&](plan::ActivityRecord& record) {
    record.enter(Activity::kWaiting);
    wait_in_a_step(over);
  });
  EXPECT_THAT(log, AllOf(HasSubstr("worker 1 takes 21.0 times as long as the others: input"),
                         Not(HasSubstr("stacks")), Not(HasSubstr("worker 3"))));
  EXPECT_EQ(log.find("worker 1 takes"), log.rfind("worker 1 takes"));
}

}  // namespace
}  // namespace muster::inline v0_1::internal
