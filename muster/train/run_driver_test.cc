#include "muster/train/run_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1 {
namespace {

using distribute::StepResult;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A course of steps that do nothing, of which `steps` can be made.
class Course final : public RunCourse {
 public:
  explicit Course(Engine& engine) : engine_(engine) {}

  int64_t steps = std::numeric_limits<int64_t>::max();
  int64_t stop_at = -1;
  bool no_step = false;
  std::function<void()> evaluate = [] {};
  int64_t made = 0;
  std::vector<int64_t> saved, evaluated;
  int pauses = 0;

  bool agree_on_no_step() override { return no_step; }
  StepResult make_step() override {
    if (made == steps) return {.any_data = false};
    ++made;
    engine_.follow(engine_.step() + 1);
    return {};
  }
  void after_step(const StepResult&) override {}
  bool wants_to_stop() const override { return engine_.step() == stop_at; }
  Saved write(const SaveWay&) override {
    saved.push_back(engine_.step());
    return {};
  }
  void after_save(const Saved&) override {
    evaluated.push_back(engine_.step());
    evaluate();
  }
  void after_pause(double) override { ++pauses; }

 private:
  Engine& engine_;
};

// Another worker makes two steps when these are over; `most` are made before.
class WithAnother final : public Pace {
 public:
  explicit WithAnother(int64_t most) : most_(most) {}
  std::vector<End> ends;

  void check(NonFinitePolicy) const override {}
  bool needs_data() const override { return true; }
  void tell_form(const std::function<std::string()>&) override {}
  void begin(Engine&, distribute::ReplicaInput*, const RunStart&) override {}
  bool begin_step(int64_t step, int64_t) override { return step < most_; }
  void read_weights() override {}
  bool is_near(StepTimer&, int64_t, int64_t) const override { return false; }
  int64_t batches_left(const distribute::ReplicaInput&) const override { return -1; }
  std::map<std::string, double> measures() override { return {}; }
  bool others_go_on() const override { return true; }
  bool saves() const override { return true; }
  bool goes_on_after(const Error& error) const override {
    return error.kind() == ErrorKind::kCancelled;
  }
  int64_t end_steps(End end, int64_t step,
                    const std::function<void(int64_t step)>& waits) override {
    ends.push_back(end);
    waits(step + 1);
    waits(step + 2);
    return step + 2;
  }

 private:
  const int64_t most_;
};

class RunDriverTest : public ::testing::Test {
 protected:
  RunDriver::End run(const RunDriver::Plan& plan) {
    RunSaves saves({.model_dir = "unused", .every_steps = every_steps}, *replica, *pace,
                   system_clock(), 0);
    RunDriver driver(engine, *pace, saves, course, system_clock());
    return driver.run(plan);
  }

  std::unique_ptr<distribute::Replica> replica = distribute::one_device()->start({});
  std::unique_ptr<Pace> pace = Pace::of(*replica);
  Engine engine{*replica, 1};
  Course course{engine};
  std::optional<int64_t> every_steps = 2;
};

TEST_F(RunDriverTest, ARunSavesBeforeItsFirstStepWhenDueAndAfterItsLast) {
  EXPECT_EQ(run({.last_step = 5}), RunDriver::End::kOver);
  EXPECT_EQ(course.made, 5);
  EXPECT_THAT(course.saved, ElementsAre(0, 2, 4, 5));
  // Nobody evaluates what a run begins with.
  EXPECT_THAT(course.evaluated, ElementsAre(2, 4, 5));
  EXPECT_EQ(course.pauses, 4);
}

TEST_F(RunDriverTest, OneThatContinuesDoesNotSaveFirst) {
  engine.follow(4);
  EXPECT_EQ(run({.last_step = 5, .continues = true}), RunDriver::End::kOver);
  EXPECT_EQ(course.made, 1);
  EXPECT_THAT(course.saved, ElementsAre(5));
}

TEST_F(RunDriverTest, DataThatEndsEndsIt) {
  course.steps = 3;
  EXPECT_EQ(run({}), RunDriver::End::kNoMoreData);
  EXPECT_THAT(course.saved, ElementsAre(0, 2, 3));
}

TEST_F(RunDriverTest, ACourseEndsItAndIsSaved) {
  course.stop_at = 4;
  EXPECT_EQ(run({.last_step = 9}), RunDriver::End::kAsked);
  EXPECT_THAT(course.saved, ElementsAre(0, 2, 4));
  // A run that is stopped does not evaluate first.
  EXPECT_THAT(course.evaluated, ElementsAre(2));
}

TEST_F(RunDriverTest, ACourseThatWantsNoStepGetsNone) {
  course.no_step = true;
  EXPECT_EQ(run({.last_step = 9}), RunDriver::End::kAsked);
  EXPECT_EQ(course.made, 0);
  EXPECT_THAT(course.saved, ElementsAre(0));
}

TEST_F(RunDriverTest, NothingIsSavedWhereNothingIsToBe) {
  every_steps.reset();
  EXPECT_EQ(run({.last_step = 3}), RunDriver::End::kOver);
  EXPECT_THAT(course.saved, IsEmpty());
}

TEST_F(RunDriverTest, WhatOthersMakeMeanwhileIsSavedToo) {
  auto with_another = std::make_unique<WithAnother>(/*most=*/3);
  WithAnother& told = *with_another;
  pace = std::move(with_another);
  // What an evaluation was interrupted by does not end the run.
  course.evaluate = [] { throw Error(ErrorKind::kCancelled, "asked to stop", ""); };
  EXPECT_EQ(run({.last_step = 1}), RunDriver::End::kOver);
  EXPECT_EQ(course.made, 3);
  EXPECT_THAT(told.ends, ElementsAre(RunDriver::End::kOver));
  EXPECT_THAT(course.saved, ElementsAre(0, 2, 4, 5));
  EXPECT_EQ(course.pauses, 0);
}

TEST_F(RunDriverTest, AnEvaluationThatFailsEndsARunInStep) {
  course.evaluate = [] { throw Error(ErrorKind::kCancelled, "asked to stop", ""); };
  EXPECT_THROW(run({.last_step = 5}), Error);
  EXPECT_EQ(course.made, 2);
}

}  // namespace
}  // namespace muster::inline v0_1
