// RunConfig::non_finite: a run that skips a step, or goes back, equals a run whose data never had
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/internal/flawed_data.h"
#include "muster/formats/event.h"
#include "muster/train/hooks.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using testing::batch_normalized;
using testing::flawed_batches;
using ::testing::HasSubstr;
using testing::latest;
using testing::quiet_config;
using testing::same_bits;

struct NonFiniteCase {
  int replicas = 1;
  int64_t accumulate = 1;
  int64_t flawed = 3;
  double value = std::nan("");
};

RunConfig config_with(NonFinitePolicy policy, const std::string& model_dir,
                      const NonFiniteCase& law) {
  RunConfig config = quiet_config(
      model_dir, law.replicas == 1 ? nullptr : distribute::mirrored({.replicas = law.replicas}));
  config.accumulate_steps = law.accumulate;
  config.save_checkpoints_steps = 2;
  config.non_finite = policy;
  return config;
}

class NonFiniteLawTest : public ::testing::TestWithParam<NonFiniteCase> {};

TEST_P(NonFiniteLawTest, ASkippedStepLeavesNoTrace) {
  const NonFiniteCase law = GetParam();
  TempDirectory directory;
  ::testing::internal::CaptureStderr();
  const InputFn input = flawed_batches({}, {law.flawed}, law.value);
  const TrainResult result =
      Estimator(batch_normalized, config_with(NonFinitePolicy::kSkip, directory / "m", law))
          .train(input);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr(" is not finite: "), HasSubstr("the step is skipped, 1 of at most 10")));
  EXPECT_EQ(result.skipped_steps, 1);
  EXPECT_EQ(result.global_step, 10 / law.accumulate - 1);
  std::set<int64_t> left_out{law.flawed};
  if (law.accumulate == 2) left_out = {law.flawed / 2 * 2, law.flawed / 2 * 2 + 1};
  Estimator(batch_normalized, config_with(NonFinitePolicy::kStop, directory / "clean", law))
      .train(flawed_batches(left_out, {}));
  EXPECT_TRUE(same_bits(latest(directory / "m"), latest(directory / "clean")));
  // In parts it is the same.
  for (const int64_t end : {2, 3, 100}) {
    Estimator(batch_normalized, config_with(NonFinitePolicy::kSkip, directory / "parts", law))
        .train(input, {.max_steps = end});
  }
  EXPECT_TRUE(same_bits(latest(directory / "parts"), latest(directory / "clean")));
}

TEST_P(NonFiniteLawTest, ARollBackForgetsWhatCameSinceTheLastSave) {
  NonFiniteCase law = GetParam();
  law.accumulate = 1;
  law.flawed = 3;  // saves are of steps 0, 2, 4: batches 2 and 3 are lost
  TempDirectory directory;
  const InputFn input = flawed_batches({}, {law.flawed}, law.value);
  const TrainResult result =
      Estimator(batch_normalized, config_with(NonFinitePolicy::kRollBack, directory / "m", law))
          .train(input);
  EXPECT_EQ(result.roll_backs, 1);
  EXPECT_EQ(result.global_step, 8);
  Estimator(batch_normalized, config_with(NonFinitePolicy::kStop, directory / "clean", law))
      .train(flawed_batches({2, 3}, {}));
  EXPECT_TRUE(same_bits(latest(directory / "m"), latest(directory / "clean")));
  for (const int64_t end : {3, 5, 100}) {
    Estimator(batch_normalized, config_with(NonFinitePolicy::kRollBack, directory / "parts", law))
        .train(input, {.max_steps = end});
  }
  // The first part ends with a save at step 3, which is gone back to then: batch 3 alone is lost.
  Estimator(batch_normalized, config_with(NonFinitePolicy::kStop, directory / "clean3", law))
      .train(flawed_batches({3}, {}));
  EXPECT_TRUE(same_bits(latest(directory / "parts"), latest(directory / "clean3")));
}
INSTANTIATE_TEST_SUITE_P(
    Cases, NonFiniteLawTest,
    ::testing::Values(NonFiniteCase{}, NonFiniteCase{.replicas = 2},
                      NonFiniteCase{.accumulate = 2, .flawed = 2},
                      NonFiniteCase{.replicas = 2, .accumulate = 2, .flawed = 2},
                      NonFiniteCase{.replicas = 2, .accumulate = 2, .flawed = 3},
                      NonFiniteCase{.value = testing::kSteep},
                      NonFiniteCase{.replicas = 2, .value = testing::kSteep}));

TEST(NonFinitePolicyTest, TheLimitEndsTheRun) {
  for (const int replicas : {1, 2}) {
    TempDirectory directory;
    RunConfig config = config_with(NonFinitePolicy::kSkip, directory / "m", {.replicas = replicas});
    config.non_finite_limit = 2;
    const Error error = error_of([&] {
      Estimator(batch_normalized, config).train(flawed_batches({}, {4, 5, 7}));
    });
    EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
    EXPECT_THAT(error.message(),
                HasSubstr("it is number 3 of this run, and RunConfig.non_finite_limit is 2"));
    EXPECT_EQ(latest(directory / "m").global_step, 4);
  }
}

// Step 4 has a flawed batch; the run ends at the step 4 that is made in its place.
TEST(NonFinitePolicyTest, ARequestToStopMeansAStepThatIsMade) {
  for (const NonFinitePolicy policy : {NonFinitePolicy::kSkip, NonFinitePolicy::kRollBack}) {
    for (const int replicas : {1, 2}) {
      TempDirectory directory;
      RunConfig config = config_with(policy, directory / "m", {.replicas = replicas});
      config.save_checkpoints_steps = 3;
      const TrainResult result =
          Estimator(batch_normalized, config)
              .train(flawed_batches({}, {3}), {.hooks = {hooks::stop_at_step({.last_step = 4})}});
      EXPECT_EQ(result.global_step, 4) << replicas;
      EXPECT_EQ(result.skipped_steps + result.roll_backs, 1);
      EXPECT_TRUE(result.stopped);
    }
  }
}

TEST(NonFinitePolicyTest, CountsAreInTheEvents) {
  TempDirectory directory;
  RunConfig config = config_with(NonFinitePolicy::kSkip, directory / "m", {});
  config.save_summary_steps = 100;
  Estimator(batch_normalized, config).train(flawed_batches({}, {2, 5}));
  FileSystem& files = local_file_system();
  std::vector<std::pair<int64_t, float>> seen;
  for (const auto& path : formats::list_event_files(files, directory / "m").value()) {
    for (const auto& event : formats::read_events(files, path).value().events) {
      for (const auto& value : event.values) {
        if (value.tag == "non_finite/skipped_steps")
          seen.emplace_back(event.step, std::get<float>(value.value));
      }
    }
  }
  EXPECT_EQ(seen, (std::vector<std::pair<int64_t, float>>{{3, 1}, {5, 2}}));
}

TEST(NonFinitePolicyTest, BadSettingsAreRefused) {
  RunConfig config{.save_checkpoints_steps = 0, .non_finite = NonFinitePolicy::kRollBack};
  EXPECT_THAT(message_of([&] { config.validate(); }), HasSubstr("no checkpoints to go back to"));
  config = {.non_finite_limit = -1};
  EXPECT_EQ(message_of([&] { config.validate(); }),
            "RunConfig.non_finite_limit is -1; it must be 0 or more");
}

}  // namespace
}  // namespace muster::inline v0_1
