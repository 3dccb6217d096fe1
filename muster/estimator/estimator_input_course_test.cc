// How the input of a run continues: in the next call of train(), after a call that made no step,
// and after a look before training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/data/csv.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using testing::examples;
using ::testing::HasSubstr;
using testing::latest;
using testing::quiet_config;
using testing::same_bits;
using testing::two_layers;

// Five steps on one replica.
Dataset epoch() { return examples(40).shuffle(40).global_batch(8); }

TEST(TrainLoop, ReadsTheInputAnewInEachCall) {
  for (const auto& strategy : {distribute::StrategyPtr(), distribute::mirrored({.replicas = 2})}) {
    TempDirectory directory;
    Estimator looped(two_layers, quiet_config(directory / "looped", strategy));
    for (int64_t call = 1; call <= 3; ++call) {
      const TrainResult result = looped.train(epoch);
      EXPECT_EQ(result.steps, 5);
      EXPECT_EQ(result.global_step, 5 * call);
      EXPECT_TRUE(result.end_of_input);
    }
    Estimator(two_layers, quiet_config(directory / "whole", strategy)).train([] {
      return epoch().repeat(3);
    });
    EXPECT_TRUE(same_bits(latest(directory / "looped"), latest(directory / "whole")));
  }
}

TEST(TrainLoop, FinishesAnEpochThatWasLeft) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  EXPECT_EQ(estimator.train(epoch, {.steps = 3}).global_step, 3);
  EXPECT_EQ(estimator.train(epoch).global_step, 5);
  // It ends with the last batch, which no call has seen.
  EXPECT_EQ(estimator.train(epoch, {.max_steps = 10}).global_step, 10);
  EXPECT_EQ(estimator.train(epoch, {.max_steps = 15}).global_step, 15);
  EXPECT_EQ(estimator.train(epoch, {.steps = 2}).global_step, 17);
  // Another process continues in the middle of the fourth epoch.
  Estimator(two_layers, quiet_config(directory / "m")).train(epoch);
  Estimator(two_layers, quiet_config(directory / "whole")).train([] { return epoch().repeat(4); });
  EXPECT_TRUE(same_bits(latest(directory / "m"), latest(directory / "whole")));
}

TEST(TrainLoop, AnotherProcessThatFindsTheEndTrainsNothingTwice) {
  TempDirectory directory;
  Estimator(two_layers, quiet_config(directory / "m")).train(epoch);
  Estimator again(two_layers, quiet_config(directory / "m"));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(again.train(epoch).steps, 0);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("end of its input at step 5"), HasSubstr("the next train()"),
                    HasSubstr("RunConfig.restart_input")));
  EXPECT_EQ(again.train(epoch).global_step, 10);
  RunConfig config = quiet_config(directory / "m");
  config.restart_input = true;
  EXPECT_EQ(Estimator(two_layers, config).train(epoch).global_step, 15);
}

TEST(TrainLoop, MayReadOtherDataOnceTheInputHasEnded) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  estimator.train(epoch);
  const auto other = [] {
    return examples(30, 2).filter([](const Element&) { return true; }).batch(10);
  };
  EXPECT_EQ(estimator.train(other).global_step, 8);
  // In the middle of one it may not.
  estimator.train(epoch, {.steps = 2});
  EXPECT_THAT(error_of([&] { estimator.train(other); }).what(),
              HasSubstr("cannot be continued with this input"));
}

TEST(StepZero, DoesNotBindARunToAnInputThatItDidNotTrainOn) {
  struct Failing : Hook {
    void before_step(int64_t) override { throw invalid_argument("not yet"); }
  };
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  error_of([&] { estimator.train(epoch, {.hooks = {std::make_shared<Failing>()}}); });
  ASSERT_EQ(latest(directory / "m").global_step, 0);
  const auto mended = [] { return examples(20).batch(5).repeat(2).prefetch(); };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Estimator(two_layers, quiet_config(directory / "m")).train(mended).global_step, 8);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("no step was made"));
}

TEST(EvaluationInput, IsLookedAtBeforeTraining) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  const data::CsvOptions columns{.columns = {{"x"}, {"label"}}, .label = "label"};
  const auto evaluate_on = [&](const Dataset& data) {
    return error_of([&] {
      train_and_evaluate(estimator, {.input_fn = epoch, .max_steps = 5},
                         std::vector<EvalSpec>{{.input_fn = epoch, .name = "there"},
                                               {.input_fn = [=] { return data; }, .name = "test"}});
    });
  };
  const std::string path = directory / "nowhere.csv";
  const Dataset missing = Dataset::from_files({path}, data::csv_format(columns));
  EXPECT_THAT(evaluate_on(missing.skip(1).batch(4)).what(),
              AllOf(HasSubstr(path), HasSubstr("the input of the evaluation \"test\"")));
  EXPECT_THAT(evaluate_on(examples(8).take(0).batch(4)).what(), HasSubstr("gave no data"));
  EXPECT_FALSE(estimator.latest_checkpoint());
}

TEST(EvaluationInput, ThatIsALiveStreamIsLeftAloneBeforeTraining) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  int64_t opened_at = -1;
  const auto stream = [&] {
    return Dataset::from_generator([&]() -> Dataset::Generator {
      if (opened_at < 0) opened_at = latest(directory / "m").global_step;
      const auto rows = std::shared_ptr<Iterator>(examples(8).batch(4).iterator());
      return [rows] { return rows->next(); };
    });
  };
  train_and_evaluate(estimator, {.input_fn = epoch, .max_steps = 5}, {.input_fn = stream});
  EXPECT_EQ(opened_at, 5);
}

}  // namespace
}  // namespace muster::inline v0_1
