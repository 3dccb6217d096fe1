#include "muster/estimator/internal/evaluator_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::inline v0_1::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr CheckpointUse kNew = CheckpointUse::kNew, kOld = CheckpointUse::kEvaluated,
                        kBad = CheckpointUse::kUnreadable;
const TimePoint kNow = TimePoint() + std::chrono::hours(1);
const TimePoint kLater = kNow + std::chrono::seconds(5);
const TimePoint kMuchLater = kNow + std::chrono::seconds(50);

SpecView newest(std::vector<CheckpointUse> uses, TimePoint due = {}) {
  return {.uses = std::move(uses), .due = due};
}
SpecView every(std::vector<CheckpointUse> uses, TimePoint due = {}) {
  return {.every_checkpoint = true, .uses = std::move(uses), .due = due};
}

std::optional<size_t> next(const SpecView& spec, bool over = false) {
  return plan_evaluations({spec}, kNow, over).checkpoint;
}

TEST(EvaluatorPlanTest, TheNewestOrEachInOrder) {
  EXPECT_EQ(next(newest({})), std::nullopt);
  EXPECT_EQ(next(newest({kNew, kNew, kNew})), 2u);
  EXPECT_EQ(next(newest({kNew, kNew, kOld})), std::nullopt) << "an older one is not gone back to";
  EXPECT_EQ(next(every({})), std::nullopt);
  EXPECT_EQ(next(every({kNew, kNew, kNew})), 0u);
  EXPECT_EQ(next(every({kOld, kNew, kNew})), 1u);
  EXPECT_EQ(next(every({kOld, kOld, kOld})), std::nullopt);
}

TEST(EvaluatorPlanTest, UnreadableCheckpointsArePassedOver) {
  EXPECT_EQ(next(newest({kOld, kNew, kBad})), 1u);
  EXPECT_EQ(next(newest({kNew, kOld, kBad})), std::nullopt);
  EXPECT_EQ(next(newest({kBad})), std::nullopt);
  EXPECT_EQ(next(every({kBad, kNew, kBad})), 1u);
  EXPECT_EQ(next(every({kOld, kBad})), std::nullopt);
}

TEST(EvaluatorPlanTest, NothingIsEvaluatedBeforeItIsDueButWhereTrainingIsOver) {
  const SpecView waits = newest({kNew}, kLater);
  const EvaluatorPlan plan = plan_evaluations({waits}, kNow, false);
  EXPECT_EQ(plan.checkpoint, std::nullopt);
  EXPECT_THAT(plan.specs, IsEmpty());
  EXPECT_EQ(plan.due, kLater);
  EXPECT_EQ(next(waits, /*over=*/true), 0u);
  EXPECT_EQ(plan_evaluations({newest({kOld}, kLater)}, kNow, false).due, std::nullopt);
  EXPECT_EQ(plan_evaluations({newest({kNew}, kMuchLater), newest({kNew}, kLater)}, kNow, false).due,
            kLater);
  EXPECT_EQ(next(newest({kNew}, kNow)), 0u);
}

TEST(EvaluatorPlanTest, SpecsShareACheckpointAndTheEarliestGoesFirst) {
  EvaluatorPlan plan = plan_evaluations(
      {newest({kNew, kNew}), newest({kNew, kOld}), newest({kNew, kNew})}, kNow, false);
  EXPECT_EQ(plan.checkpoint, 1u);
  EXPECT_THAT(plan.specs, ElementsAre(0, 2));
  plan = plan_evaluations({newest({kNew, kNew}), every({kNew, kNew})}, kNow, false);
  EXPECT_EQ(plan.checkpoint, 0u);
  EXPECT_THAT(plan.specs, ElementsAre(1));
  plan = plan_evaluations({newest({kNew, kNew}), every({kNew, kNew}, kLater)}, kNow, false);
  EXPECT_EQ(plan.checkpoint, 1u);
  EXPECT_THAT(plan.specs, ElementsAre(0));
  EXPECT_EQ(plan.due, kLater);
}

TrainingSigns signs() { return {.newest_step = 50, .max_steps = 100}; }

TEST(TrainingSignsTest, AChiefAtWorkContinuesUntilItIsThrough) {
  TrainingSigns now = signs();
  EXPECT_EQ(judge_training(now), TrainingState::kUnknown);
  now.chief_works = true;
  EXPECT_EQ(judge_training(now), TrainingState::kGoesOn);
  now.end = RunEnd{EndReason::kEndOfInput, 50};  // of the run before; this one removes it
  now.end_was_there = true;
  EXPECT_EQ(judge_training(now), TrainingState::kGoesOn);
  now.chief_is_through = true;
  EXPECT_EQ(judge_training(now), TrainingState::kOver);
}

TEST(TrainingSignsTest, MaxStepsEndItWhoeverWorks) {
  TrainingSigns now = signs();
  now.newest_step = 100;
  EXPECT_EQ(judge_training(now), TrainingState::kOver);
  now.chief_works = true;
  EXPECT_EQ(judge_training(now), TrainingState::kOver);
  now.max_steps.reset();
  EXPECT_EQ(judge_training(now), TrainingState::kGoesOn);
  EXPECT_EQ(judge_training({.max_steps = 100}), TrainingState::kUnknown);
}

TEST(TrainingSignsTest, AnEndThatCameMeanwhileCountsAndOneThatWasThereIsDoubted) {
  TrainingSigns now = signs();
  now.end = RunEnd{EndReason::kHook, 50};
  EXPECT_EQ(judge_training(now), TrainingState::kOver);
  now.end_was_there = true;
  EXPECT_EQ(judge_training(now), TrainingState::kMaybeOver);
  now.run = "this";
  EXPECT_EQ(judge_training(now), TrainingState::kMaybeOver) << "the end names no run";
  now.end->run = "this";
  EXPECT_EQ(judge_training(now), TrainingState::kOver);
  now.end->run = "another";
  EXPECT_EQ(judge_training(now), TrainingState::kUnknown);
  now.run.clear();
  EXPECT_EQ(judge_training(now), TrainingState::kMaybeOver);
}

TEST(TrainingSignsTest, AFailureForGoodEndsItUnlessAChiefIsBack) {
  TrainingSigns now = signs();
  now.chief_failed = true;
  EXPECT_EQ(judge_training(now), TrainingState::kFailed);
  now.chief_works = true;
  EXPECT_EQ(judge_training(now), TrainingState::kGoesOn);
}

}  // namespace
}  // namespace muster::inline v0_1::internal
