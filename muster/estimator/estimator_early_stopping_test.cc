// Early stopping in runs of train_and_evaluate: when it ends them, and how a restart continues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/in_memory_evaluator.h"
#include "muster/estimator/internal/scripted_model.h"
#include "muster/train/early_stopping.h"

namespace muster::inline v0_1 {
namespace {

using testing::falls_until_30;
using testing::latest;
using testing::quiet_config;
using testing::same_bits;
using testing::shuffled_batches;

int64_t ends_at(const std::string& model_dir, std::shared_ptr<Hook> hook) {
  Estimator estimator(falls_until_30, quiet_config(model_dir));
  train_and_evaluate(
      estimator,
      {.input_fn = shuffled_batches(50, 7), .max_steps = 200, .hooks = {std::move(hook)}},
      {.input_fn = shuffled_batches(20, 10, 1)});
  return latest(model_dir).global_step;
}

TEST(EarlyStoppingRunTest, EndsAndARestartDecidesAnew) {
  TempDirectory directory;
  const std::string patient = directory / "patient", stopped = directory / "stopped";
  EXPECT_EQ(ends_at(stopped, hooks::stop_if_no_decrease("m", 20)), 50);
  // The reason still holds: no step is made.
  Estimator again(falls_until_30, quiet_config(stopped));
  const TrainResult result = again.train(
      shuffled_batches(50, 7), {.max_steps = 200, .hooks = {hooks::stop_if_no_decrease("m", 20)}});
  EXPECT_EQ(result.steps, 0);
  EXPECT_TRUE(result.stopped);
  // With more patience it continues, as if it had had it from the start.
  EXPECT_EQ(ends_at(stopped, hooks::stop_if_no_decrease("m", 40)), 70);
  EXPECT_EQ(ends_at(patient, hooks::stop_if_no_decrease("m", 40)), 70);
  EXPECT_TRUE(same_bits(latest(stopped), latest(patient)));
}

TEST(EarlyStoppingRunTest, TheLastCheckpointStandsOnceAmongTheEvaluations) {
  TempDirectory directory;
  ends_at(directory / "m", hooks::stop_if_no_decrease("m", 20));
  const std::string lines =
      local_file_system().read_file(directory / "m/evaluations.jsonl").value();
  const auto times_of = [&](const std::string& text) {
    size_t times = 0;
    for (size_t at = 0; (at = lines.find(text, at)) != std::string::npos; ++at) ++times;
    return times;
  };
  EXPECT_EQ(times_of("\"model.ckpt-50\""), 1u) << lines;
  EXPECT_EQ(times_of("\"model.ckpt-40\""), 1u) << lines;
}

TEST(EarlyStoppingRunTest, AHookThatNeverReceivesItsEvaluationSaysSo) {
  TempDirectory directory;
  Estimator estimator(falls_until_30, quiet_config(directory / "m"));
  const auto run = [&](const hooks::StopIfOptions& options) {
    train_and_evaluate(estimator,
                       {.input_fn = shuffled_batches(50, 7),
                        .max_steps = 200,
                        .hooks = {hooks::stop_if_no_decrease("m", 20, options)}},
                       {.input_fn = shuffled_batches(20, 10, 1), .name = "valid"});
  };
  const Error error = error_of([&] { run({}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), ::testing::HasSubstr("this run evaluates \"valid\""));
  EXPECT_EQ(error.hint(), "set .eval_dir = estimator.eval_dir(\"valid\")");
  // An evaluation with a name next to it is not meant.
  TempDirectory other;
  Estimator both(falls_until_30, quiet_config(other / "m"));
  train_and_evaluate(
      both,
      {.input_fn = shuffled_batches(50, 7),
       .max_steps = 200,
       .hooks = {hooks::in_memory_evaluator(both, shuffled_batches(20, 10, 1), {.name = "train"}),
                 hooks::stop_if_no_decrease("m", 20)}},
      {.input_fn = shuffled_batches(20, 10, 1)});
  EXPECT_EQ(latest(both.model_dir()).global_step, 50);
  run({.eval_dir = estimator.eval_dir("valid")});
  EXPECT_EQ(latest(estimator.model_dir()).global_step, 50);
}

TEST(EarlyStoppingRunTest, LeavesNothingInTheCheckpoint) {
  TempDirectory directory;
  ends_at(directory / "stopped", hooks::stop_if_lower("m", 5));
  Estimator(falls_until_30, quiet_config(directory / "plain"))
      .train(shuffled_batches(50, 7), {.max_steps = 30});
  EXPECT_TRUE(same_bits(latest(directory / "stopped"), latest(directory / "plain")));
  EXPECT_EQ(latest(directory / "stopped").inputs, latest(directory / "plain").inputs);
}

TEST(EarlyStoppingRunTest, EvaluationsOfStepsThatWereLostDoNotCount) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  EXPECT_EQ(ends_at(model_dir, hooks::stop_if_no_decrease("m", 20)), 50);
  // The run is begun again from step 30: its evaluations at 40 and 50 are not known yet.
  const CheckpointManager checkpoints(model_dir);
  for (const std::string& prefix : checkpoints.all()) {
    if (checkpoint_step(prefix) <= 30) continue;
    ASSERT_TRUE(local_file_system().remove(checkpoint_file(prefix)).ok());
  }
  const Checkpoint back = latest(model_dir);
  EXPECT_EQ(back.global_step, 30);
  EXPECT_EQ(ends_at(model_dir, hooks::stop_if_no_decrease("m", 20)), 50);
}

}  // namespace
}  // namespace muster::inline v0_1
