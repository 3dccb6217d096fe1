#include "muster/estimator/train_and_evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/exporter.h"
#include "muster/estimator/run_end.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using testing::examples;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::quiet_config;
using testing::shuffled_batches;
using testing::two_layers;

// The step that is evaluated; nothing before training, when the input is only looked at.
void note_step(const Estimator& estimator, std::vector<int64_t>* steps) {
  if (const auto latest = estimator.latest_checkpoint()) steps->push_back(checkpoint_step(*latest));
}

InputFn rows_in_batches(int64_t rows, int64_t batch) {
  return [=] { return examples(rows).batch(batch); };
}

TEST(TrainAndEvaluateTest, EvaluatesEverySaveAndTheEnd) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  std::vector<int64_t> evaluated;
  const InputFn eval_input = [&] {
    note_step(estimator, &evaluated);
    return examples(20).batch(10);
  };
  const auto result = train_and_evaluate(
      estimator, {.input_fn = shuffled_batches(64, 8), .max_steps = 22}, {.input_fn = eval_input});
  EXPECT_THAT(evaluated, ::testing::ElementsAre(10, 20, 22));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->at("global_step"), 22);
  // Again: nothing to train, but the checkpoint there is gets evaluated.
  evaluated.clear();
  const auto again = train_and_evaluate(
      estimator, {.input_fn = shuffled_batches(64, 8), .max_steps = 22}, {.input_fn = eval_input});
  EXPECT_THAT(evaluated, ::testing::ElementsAre(22));
  EXPECT_EQ(again->at("loss"), result->at("loss"));
}

TEST(TrainAndEvaluateTest, ThrottleSkipsButNeverTheLast) {
  TempDirectory directory;
  ManualClock clock;
  RunConfig config = quiet_config(directory / "m");
  config.clock = &clock;
  Estimator estimator(two_layers, config);
  std::vector<int64_t> evaluated;
  const InputFn eval_input = [&] {
    note_step(estimator, &evaluated);
    return examples(20).batch(10);
  };
  train_and_evaluate(estimator, {.input_fn = shuffled_batches(64, 8), .max_steps = 45},
                     {.input_fn = eval_input, .throttle_secs = Seconds(600)});
  EXPECT_THAT(evaluated, ::testing::ElementsAre(10, 45));
}

TEST(TrainAndEvaluateTest, RefusesBadSpecs) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  const TrainSpec train{.input_fn = shuffled_batches(64, 8), .max_steps = 5};
  EXPECT_THAT(error_of([&] {
                train_and_evaluate(estimator, {}, {.input_fn = shuffled_batches(8, 8)});
              }).what(),
              HasSubstr("TrainSpec.input_fn"));
  EXPECT_THAT(error_of([&] {
                train_and_evaluate(estimator, train,
                                   {.input_fn = shuffled_batches(8, 8), .steps = 0});
              }).what(),
              HasSubstr("EvalSpec.steps is 0"));
  RunConfig config = quiet_config(directory / "n");
  config.save_checkpoints_steps = 0;
  Estimator without(two_layers, config);
  EXPECT_THAT(error_of([&] {
                train_and_evaluate(without, train, {.input_fn = shuffled_batches(8, 8)});
              }).what(),
              HasSubstr("disables them"));
}

// Remembers its calls, and exports when `wants` says so.
class RecordingExporter : public Exporter {
 public:
  struct Call {
    std::string export_path{};
    int64_t step{};
    double loss{};
    bool is_final{};
  };
  RecordingExporter(std::string name, std::function<bool(const Call&)> wants)
      : name_(std::move(name)), wants_(std::move(wants)) {}
  const std::string& name() const override { return name_; }
  std::optional<std::string> export_model(Estimator&, const std::string& export_path,
                                          const std::string& checkpoint_path,
                                          const EvalResult& eval_result,
                                          bool is_the_final_export) override {
    calls.push_back({export_path, checkpoint_step(checkpoint_path), eval_result.at("loss"),
                     is_the_final_export});
    if (!wants_(calls.back())) return std::nullopt;
    return join_path(export_path, std::to_string(calls.back().step));
  }
  // The steps it was called with; those of a final export are below 0.
  std::vector<int64_t> steps() const {
    std::vector<int64_t> all;
    for (const Call& call : calls) all.push_back(call.is_final ? -call.step : call.step);
    return all;
  }

  std::vector<Call> calls;

 private:
  std::string name_;
  std::function<bool(const Call&)> wants_;
};

std::shared_ptr<RecordingExporter> always(const std::string& name) {
  return std::make_shared<RecordingExporter>(name, [](const auto&) { return true; });
}
std::shared_ptr<RecordingExporter> at_the_final(const std::string& name) {
  return std::make_shared<RecordingExporter>(name, [](const auto& call) { return call.is_final; });
}

class StopAt : public Hook {
 public:
  explicit StopAt(int64_t step) : step_(step) {}
  void after_step(const StepInfo& info) override {
    if (info.global_step >= step_) info.control.request_stop();
  }

 private:
  int64_t step_;
};

TEST(TrainAndEvaluateTest, SeveralSpecsAreEvaluatedByNameInOneLoop) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  int inputs = 0;
  const InputFn training = [&] {
    ++inputs;
    return examples(64).shuffle(64).repeat().batch(8);
  };
  const std::vector<EvalSpec> specs{
      {.input_fn = rows_in_batches(20, 10), .name = "small"},
      {.input_fn = rows_in_batches(60, 10), .steps = 3, .name = "large"}};
  const TrainAndEvaluateResult result =
      train_and_evaluate(estimator, {.input_fn = training, .max_steps = 15}, specs);
  EXPECT_EQ(inputs, 1);
  EXPECT_EQ(result.training.steps, 15);
  ASSERT_EQ(result.evaluations.size(), 2u);
  EXPECT_EQ(result.evaluations.at("small").at("global_step"), 15);
  EXPECT_EQ(result.evaluations.at("small"), estimator.evaluate(rows_in_batches(20, 10)));
  EXPECT_EQ(result.evaluations.at("large"), estimator.evaluate(rows_in_batches(30, 10)));
  EXPECT_TRUE(std::filesystem::exists(directory / "m/eval_small"));
  EXPECT_TRUE(std::filesystem::exists(directory / "m/eval_large"));
}

TEST(TrainAndEvaluateTest, EachSpecHasItsOwnThrottle) {
  TempDirectory directory;
  ManualClock clock;
  RunConfig config = quiet_config(directory / "m");
  config.clock = &clock;
  Estimator estimator(two_layers, config);
  std::vector<int64_t> often, seldom;
  const auto noting = [&](std::vector<int64_t>& steps) {
    return [&] {
      note_step(estimator, &steps);
      clock.advance(from_seconds(50));
      return examples(20).batch(10);
    };
  };
  ::testing::internal::CaptureStderr();
  train_and_evaluate(
      estimator, {.input_fn = shuffled_batches(64, 8), .max_steps = 45},
      std::vector<EvalSpec>{
          {.input_fn = noting(often), .name = "often"},
          {.input_fn = noting(seldom), .name = "seldom", .throttle_secs = Seconds(120)}});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(often, ElementsAre(10, 20, 30, 40, 45));
  // It begins at 50 s; then there are checkpoints at 100, 150 and 200 s.
  EXPECT_THAT(seldom, ElementsAre(10, 40, 45));
  EXPECT_THAT(said,
              HasSubstr("step 20 (seldom) is not evaluated now: throttle_secs is 120, the next "
                        "evaluation is due in 70 s, or when training ends"));
  EXPECT_THAT(said, ::testing::Not(HasSubstr("step 30 (seldom) is not evaluated now")))
      << "it was said";
  EXPECT_THAT(said, HasSubstr("evaluating step 40 (seldom): the evaluation before it began 150 s "
                              "ago, throttle_secs is 120; the next one is due in 120 s"));
}

TEST(TrainAndEvaluateTest, ExportersAreNotifiedOfEachEvaluationAndOfTheFinalOne) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  const auto latest = always("latest"), last = at_the_final("final");
  const TrainSpec training{.input_fn = shuffled_batches(64, 8), .max_steps = 22};
  const std::vector<EvalSpec> specs{
      {.input_fn = rows_in_batches(20, 10), .exporters = {latest, last}}};
  const TrainAndEvaluateResult result = train_and_evaluate(estimator, training, specs);
  EXPECT_THAT(latest->steps(), ElementsAre(10, 20, -22));
  EXPECT_THAT(last->steps(), ElementsAre(10, 20, -22));
  EXPECT_EQ(latest->calls[0].export_path, directory / "m/export/latest");
  EXPECT_EQ(latest->calls[2].loss, result.evaluations.at("").at("loss"));
  const std::string folder = directory / "m/export/";
  EXPECT_THAT(result.exports,
              ElementsAre(Pair("final", ElementsAre(folder + "final/22")),
                          Pair("latest", ElementsAre(folder + "latest/10", folder + "latest/20",
                                                     folder + "latest/22"))));
  // Again, with nothing left to train: the existing checkpoint is evaluated and exported.
  train_and_evaluate(estimator, training, specs);
  EXPECT_THAT(last->steps(), ElementsAre(10, 20, -22, -22));
}

TEST(TrainAndEvaluateTest, ARunWithoutMaxStepsHasAFinalExportToo) {
  TempDirectory directory;
  const auto run = [&](const std::string& folder, TrainSpec training) {
    const auto latest = always("latest"), last = at_the_final("final");
    Estimator estimator(two_layers, quiet_config(directory / folder));
    train_and_evaluate(estimator, training,
                       EvalSpec{.input_fn = rows_in_batches(20, 10), .exporters = {latest, last}});
    return std::pair(latest->steps(), last->steps());
  };
  // The last save is due in the loop, before the end of the input is known.
  const auto in_time = run("in_time", {.input_fn = shuffled_batches(80, 8, 2)});
  EXPECT_THAT(in_time.first, ElementsAre(10, 20));
  EXPECT_THAT(in_time.second, ElementsAre(10, 20, -20));
  const auto rest = run("rest", {.input_fn = shuffled_batches(100, 8, 1)});
  EXPECT_THAT(rest.first, ElementsAre(10, 13));
  EXPECT_THAT(rest.second, ElementsAre(10, 13, -13));
  const auto stopped = run(
      "stopped", {.input_fn = shuffled_batches(80, 8), .hooks = {std::make_shared<StopAt>(14)}});
  EXPECT_THAT(stopped.first, ElementsAre(10, 14));
  EXPECT_THAT(stopped.second, ElementsAre(10, 14, -14));
}

TEST(TrainAndEvaluateTest, AnExporterThatFailsEndsTheRun) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  const auto failing = std::make_shared<RecordingExporter>(
      "failing", [](const auto&) -> bool { throw invalid_argument("no export today"); });
  const Error error = error_of([&] {
    train_and_evaluate(estimator, {.input_fn = shuffled_batches(64, 8), .max_steps = 30},
                       EvalSpec{.input_fn = rows_in_batches(20, 10), .exporters = {failing}});
  });
  EXPECT_THAT(error.what(), HasSubstr("no export today"));
  EXPECT_EQ(checkpoint_step(*estimator.latest_checkpoint()), 10);
  EXPECT_FALSE(read_run_end(directory / "m"));
}

TEST(TrainAndEvaluateTest, NamesFieldValueAndRuleOfEverySpec) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  const InputFn input = rows_in_batches(8, 8);
  const TrainSpec training{.input_fn = shuffled_batches(64, 8), .max_steps = 5};
  const auto message = [&](const TrainSpec& train, const std::vector<EvalSpec>& specs) {
    const Error error = error_of([&] { train_and_evaluate(estimator, train, specs); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  };
  const auto spec = [&](const std::string& name) {
    return EvalSpec{.input_fn = input, .name = name};
  };
  EXPECT_EQ(message(training, {}), "train_and_evaluate got no EvalSpec");
  EXPECT_EQ(message({.input_fn = input, .max_steps = 0}, {spec("")}),
            "TrainSpec.max_steps is 0; it must be more than 0");
  EXPECT_EQ(message(training, {spec("a"), spec("")}),
            "EvalSpec.name is \"\", and there are 2 EvalSpecs");
  EXPECT_EQ(message(training, {spec("a"), spec("a")}), "two EvalSpecs have the name \"a\"");
  EXPECT_EQ(message(training, {spec("a/b")}), "EvalSpec.name is \"a/b\"; it must hold no slash");
  EXPECT_EQ(message(training, {EvalSpec{}}), "EvalSpec.input_fn is empty");
  EXPECT_EQ(message(training, {spec("a"), EvalSpec{.name = "b"}}),
            "EvalSpec \"b\": input_fn is empty");
  EXPECT_EQ(message(training, {EvalSpec{.input_fn = input, .steps = 0}}),
            "EvalSpec.steps is 0; it must be more than 0");
  EXPECT_EQ(message(training, {EvalSpec{.input_fn = input, .throttle_secs = Seconds(-1)}}),
            "EvalSpec.throttle_secs is -1; it must be 0 or more");
  EXPECT_EQ(message(training, {EvalSpec{.input_fn = input, .start_delay_secs = Seconds(-2.5)}}),
            "EvalSpec.start_delay_secs is -2.5; it must be 0 or more");
  EXPECT_THAT(message(training, {EvalSpec{.input_fn = input, .hooks = {nullptr}}}),
              HasSubstr("EvalSpec.hooks"));
  EXPECT_EQ(message(training, {EvalSpec{.input_fn = input, .exporters = {nullptr}}}),
            "EvalSpec.exporters holds an empty one");
  EXPECT_EQ(message(training, {EvalSpec{.input_fn = input, .exporters = {always("")}}}),
            "EvalSpec.exporters: the name of an exporter is \"\"; it must be a word without a "
            "slash");
  // Their folders are next to each other, whatever spec they belong to.
  EvalSpec one = spec("one"), two = spec("two");
  one.exporters = two.exporters = {always("best")};
  EXPECT_EQ(message(training, {one, two}),
            "EvalSpec \"two\": exporters: two exporters have the name \"best\"");
  EXPECT_FALSE(std::filesystem::exists(directory / "m"));
}

}  // namespace
}  // namespace muster::inline v0_1
