#include "muster/estimator/best_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using testing::examples;
using ::testing::HasSubstr;
using testing::quiet_config;
using testing::shuffled_batches;

// Measures "quality": the value of `curve` for the step.
ModelFn model_of(std::function<double(int64_t step)> curve) {
  return [curve = std::move(curve)](const Features& features, const Labels& labels, Mode mode,
                                    ModelContext& context) {
    EstimatorSpec spec = testing::two_layers(features, labels, mode, context);
    if (mode == Mode::kEval) {
      const Tensor quality = torch::full({1}, curve(context.global_step()), at::kDouble);
      spec.eval_metrics.emplace("quality", metrics::mean(quality));
    }
    return spec;
  };
}

const EvalSpec kEvaluation{.input_fn = [] { return examples(8).batch(8); }};

// Best at step 30, then at 20; step 40 gives no number.
double rises_and_falls(int64_t step) {
  return step == 40 ? std::nan("") : 100 - std::abs(static_cast<double>(step) - 28);
}

RunConfig keeping(const std::string& model_dir, const KeepBest& best) {
  RunConfig config = quiet_config(model_dir);
  config.keep_checkpoint_max = 2;
  config.keep_best = best;
  return config;
}

// The steps of the existing checkpoint files.
std::vector<int64_t> steps_in(const std::string& model_dir) {
  std::vector<int64_t> steps;
  for (const std::string& name : local_file_system().list_directory(model_dir).value()) {
    if (name.ends_with(".safetensors")) steps.push_back(checkpoint_step(name));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<int64_t> steps_of(const std::vector<BestCheckpoint>& best) {
  std::vector<int64_t> steps;
  for (const BestCheckpoint& one : best) steps.push_back(one.global_step);
  return steps;
}

TEST(BestCheckpointsTest, TheBestStayBesideTheNewest) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  const KeepBest policy{.count = 2, .metric = "quality", .higher_is_better = true};
  const auto train_to = [&](int64_t step) {
    Estimator estimator(model_of(rises_and_falls), keeping(model_dir, policy));
    train_and_evaluate(estimator, {.input_fn = shuffled_batches(64, 8), .max_steps = step},
                       kEvaluation);
  };
  EXPECT_TRUE(best_checkpoints(model_dir).empty());
  train_to(50);
  EXPECT_THAT(steps_of(best_checkpoints(model_dir)), ElementsAre(30, 20));
  EXPECT_THAT(steps_in(model_dir), ElementsAre(20, 30, 40, 50));
  // A run that continues forgets nothing.
  train_to(80);
  const std::vector<BestCheckpoint> best = best_checkpoints(model_dir);
  EXPECT_THAT(steps_of(best), ElementsAre(30, 20));
  EXPECT_THAT(steps_in(model_dir), ElementsAre(20, 30, 70, 80));
  EXPECT_EQ(best[0].prefix, model_dir + "/model.ckpt-30");
  EXPECT_EQ(best[0].value, 98);
  // They can be evaluated, but a run does not continue from them.
  Estimator again(model_of(rises_and_falls), quiet_config(model_dir));
  EXPECT_EQ(again.evaluate(kEvaluation.input_fn, {.checkpoint_path = best[0].prefix}).at("quality"),
            98);
  EXPECT_EQ(checkpoint_step(*again.latest_checkpoint()), 80);
}

TEST(BestCheckpointsTest, ACheckpointThatIsNoLongerBestIsDeleted) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  const auto train_to = [&](int64_t step, const KeepBest& policy) {
    Estimator estimator(model_of([](int64_t at) { return static_cast<double>(at % 40); }),
                        keeping(model_dir, policy));
    train_and_evaluate(estimator, {.input_fn = shuffled_batches(64, 8), .max_steps = step},
                       kEvaluation);
  };
  const KeepBest highest{.metric = "quality", .higher_is_better = true};
  train_to(60, highest);
  EXPECT_THAT(steps_of(best_checkpoints(model_dir)), ElementsAre(30));
  EXPECT_THAT(steps_in(model_dir), ElementsAre(30, 50, 60));
  // Another question has other answers: the list begins again.
  ::testing::internal::CaptureStderr();
  train_to(90, {.metric = "quality", .higher_is_better = false});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("a new list begins"));
  EXPECT_THAT(steps_of(best_checkpoints(model_dir)), ElementsAre(80));
  EXPECT_THAT(steps_in(model_dir), ElementsAre(80, 90));
}

TEST(BestCheckpointsTest, TheNameSaysWhichValuesAreBetter) {
  EXPECT_TRUE(KeepBest{.metric = "accuracy"}.higher());
  EXPECT_TRUE(KeepBest{.metric = "auc_precision_recall"}.higher());
  EXPECT_FALSE(KeepBest{}.higher());
  EXPECT_FALSE((KeepBest{.metric = "accuracy", .higher_is_better = false}).higher());
  EXPECT_THAT(error_of([] { (void)KeepBest{.metric = "quality"}.higher(); }).hint(),
              HasSubstr(".higher_is_better = true"));
}

TEST(BestCheckpointsTest, SaysWhatItCannotCompare) {
  TempDirectory directory;
  const auto run = [&](const KeepBest& policy) {
    Estimator estimator(model_of(rises_and_falls), keeping(directory / "m", policy));
    return error_of([&] {
      train_and_evaluate(estimator, {.input_fn = shuffled_batches(64, 8), .max_steps = 10},
                         kEvaluation);
    });
  };
  const Error metric = run({.metric = "qualty", .higher_is_better = true});
  EXPECT_EQ(metric.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(metric.message(), HasSubstr("RunConfig.keep_best.metric is \"qualty\""));
  EXPECT_THAT(metric.hint(), HasSubstr("accuracy, global_step, loss, quality"));
  const Error evaluation =
      run({.metric = "quality", .higher_is_better = true, .evaluation = "test"});
  EXPECT_EQ(evaluation.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(evaluation.message(), HasSubstr("RunConfig.keep_best.evaluation is \"test\""));
  local_file_system().write_atomically(directory / "m/best_checkpoints.json", "{}").value();
  const Error damaged = run({.metric = "quality", .higher_is_better = false});
  EXPECT_EQ(damaged.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(damaged.message(), HasSubstr("best_checkpoints.json"));
}

// The file may have come with a foreign folder.
TEST(BestCheckpointsTest, NamesWhatLiesInItsDirectory) {
  TempDirectory directory;
  for (const std::string name : {"../secret", "/etc/secret", "http://127.0.0.1:1/secret"}) {
    local_file_system()
        .write_atomically(
            directory / "best_checkpoints.json",
            R"({"count": 1, "metric": "loss", "higher_is_better": false, "evaluation": "",)"
            R"("best": [{"checkpoint": ")" +
                name + R"(", "global_step": 1, "value": 0.5}]})")
        .value();
    const Error wrong = error_of([&] { (void)best_checkpoints(directory.path()); });
    EXPECT_EQ(wrong.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(wrong.message(), HasSubstr("names '" + name + "', which"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1
