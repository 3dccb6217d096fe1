// Hooks of evaluations and predictions, and evaluations inside of training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/in_memory_evaluator.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using testing::examples;
using ::testing::HasSubstr;
using testing::latest;
using testing::quiet_config;
using testing::same_bits;
using testing::shuffled_batches;
using testing::two_layers;

using Lines = std::vector<std::string>;

class Protocol : public Hook {
 public:
  explicit Protocol(Lines& lines, int64_t stop_after = -1, int64_t throw_after = -1)
      : lines_(lines), stop_after_(stop_after), throw_after_(throw_after) {}
  void begin(const RunInfo& info) override {
    control_ = info.control;
    batches_ = 0;
    lines_.push_back(fmt::format("begin {} {}", describe(info.mode), info.start_step));
  }
  void before_step(int64_t) override { lines_.push_back("before"); }
  void after_step(const StepInfo& info) override {
    lines_.push_back(fmt::format("batch of {}", info.rows));
    if (++batches_ == stop_after_) control_.request_stop();
    if (batches_ == throw_after_) throw internal_error("the hook broke");
  }
  void after_evaluate(int64_t step, const std::string& name,
                      const std::map<std::string, double>& results) override {
    lines_.push_back(fmt::format("evaluated {} \"{}\" {}", step, name, results.contains("loss")));
  }
  void end(int64_t step) override { lines_.push_back(fmt::format("end {}", step)); }
  void on_error(const Error& error) override { lines_.push_back("error " + error.message()); }

 private:
  Lines& lines_;
  const int64_t stop_after_, throw_after_;
  int64_t batches_ = 0;
  RunControl control_;
};

class EvaluationHooksTest : public ::testing::Test {
 protected:
  EvaluationHooksTest() {
    Estimator(two_layers, quiet_config(directory_ / "m"))
        .train(shuffled_batches(20, 5), {.max_steps = 3});
  }
  const std::string model_dir() const { return directory_ / "m"; }
  static Dataset seven() { return examples(7).batch(4); }

  TempDirectory directory_;
  Lines lines_;
};

TEST_F(EvaluationHooksTest, AreToldOfEachBatchAndOfTheResult) {
  Estimator estimator(two_layers, quiet_config(model_dir()));
  estimator.evaluate(seven, {.hooks = {std::make_shared<Protocol>(lines_)}, .name = "x"});
  EXPECT_THAT(lines_, ElementsAre("begin eval 3", "before", "batch of 4", "before", "batch of 3",
                                  "evaluated 3 \"x\" true", "end 3"));
}

TEST_F(EvaluationHooksTest, MayEndItOnOneReplica) {
  Estimator estimator(two_layers, quiet_config(model_dir()));
  EXPECT_EQ(estimator.evaluate(seven, {.hooks = {std::make_shared<Protocol>(lines_, 1)}}),
            estimator.evaluate(seven, {.steps = 1}));
  RunConfig config = quiet_config(model_dir());
  config.eval_distribute = distribute::mirrored({.replicas = 2});
  Estimator two(two_layers, config);
  EXPECT_THAT(
      message_of([&] { two.evaluate(seven, {.hooks = {std::make_shared<Protocol>(lines_, 1)}}); }),
      HasSubstr("a hook requested the end of an evaluation on 2 replicas"));
}

TEST_F(EvaluationHooksTest, AreToldWhenOneThrows) {
  Estimator estimator(two_layers, quiet_config(model_dir()));
  const Error error = error_of(
      [&] { estimator.evaluate(seven, {.hooks = {std::make_shared<Protocol>(lines_, -1, 1)}}); });
  EXPECT_EQ(error.message(), "the hook broke; in Protocol::after_step() at step 3");
  EXPECT_EQ(lines_.back(), "error " + error.message());
}

TEST_F(EvaluationHooksTest, HooksOfTheModelComeLastAndEveryTime) {
  const ModelFn model = [&](const Features& features, const Labels& labels, Mode mode,
                            ModelContext& context) {
    EstimatorSpec spec = two_layers(features, labels, mode, context);
    spec.evaluation_hooks = spec.prediction_hooks = {std::make_shared<Protocol>(lines_)};
    return spec;
  };
  Estimator estimator(model, quiet_config(model_dir()));
  for (int i = 0; i < 2; ++i) {
    lines_.clear();
    estimator.evaluate(seven, {.steps = 1});
    EXPECT_THAT(lines_, ElementsAre("begin eval 3", "before", "batch of 4", "evaluated 3 \"\" true",
                                    "end 3"));
  }
  lines_.clear();
  Predictions predictions = estimator.predict(seven);
  while (predictions.next()) {
  }
  EXPECT_FALSE(predictions.next());
  EXPECT_THAT(lines_, ElementsAre("begin predict 3", "before", "batch of 4", "before", "batch of 3",
                                  "end 3"));
}

TEST_F(EvaluationHooksTest, PredictionsThatAreLetGoEndCleanly) {
  Estimator estimator(two_layers, quiet_config(model_dir()));
  {
    Predictions predictions =
        estimator.predict(seven, {.hooks = {std::make_shared<Protocol>(lines_)}});
    ASSERT_TRUE(predictions.next());
  }
  EXPECT_THAT(lines_, ElementsAre("begin predict 3", "before", "batch of 4", "end 3"));
  EXPECT_THAT(message_of([&] { estimator.predict(seven, {.hooks = {nullptr}}); }),
              HasSubstr("PredictOptions.hooks[0] is empty"));
}

// The steps that train_and_evaluate() reports as saved, and the steps that the hook receives.
class Evaluated : public Hook {
 public:
  void after_evaluate(int64_t step, const std::string&,
                      const std::map<std::string, double>& results) override {
    all[step] = results;
  }
  std::map<int64_t, std::map<std::string, double>> all;
};

// A service that tries hyper-parameters, such as Vertex AI's, receives the result of each
// evaluation.
TEST(TrialTest, ReportsWhatIsEvaluated) {
  TempDirectory directory;
  const std::string report = directory / "output.metrics";
  RunConfig config = quiet_config(directory / "model");
  config.save_checkpoints_steps = 4;
  config.environment = Environment{{"CLOUD_ML_TRIAL_ID", "3"},
                                   {"CLOUD_ML_HP_METRIC_TAG", "loss"},
                                   {"CLOUD_ML_HP_METRIC_FILE", report}};
  const auto hook = std::make_shared<Evaluated>();
  Estimator estimator(two_layers, config);
  train_and_evaluate(estimator,
                     {.input_fn = shuffled_batches(50, 7), .max_steps = 8, .hooks = {hook}},
                     {.input_fn = [] { return examples(30, 2).batch(8); }, .steps = std::nullopt});
  std::map<int64_t, double> reported;
  std::istringstream lines(local_file_system().read_file(report).value());
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json fields = nlohmann::json::parse(line);
    EXPECT_EQ(fields.size(), 4u) << line;
    reported[std::stoll(fields.at("global_step").get<std::string>())] =
        std::stod(fields.at("loss").get<std::string>());
  }
  EXPECT_EQ(reported.size(), 2u);
  for (const auto& [step, value] : reported) EXPECT_EQ(value, hook->all.at(step).at("loss"));
}

TEST(InMemoryEvaluatorTest, SaysWhatCheckpointsSayAndLeavesTrainingAlone) {
  TempDirectory directory;
  const nlohmann::json params{{"optimizer", "adam"}, {"dropout", 0.3}};
  const InputFn input = shuffled_batches(50, 7), test = [] { return examples(30, 2).batch(8); };
  RunConfig config = quiet_config(directory / "saved");
  config.save_checkpoints_steps = 4;
  const auto saved = std::make_shared<Evaluated>(), live = std::make_shared<Evaluated>();
  Estimator a(two_layers, config, params);
  train_and_evaluate(a, {.input_fn = input, .max_steps = 10, .hooks = {saved}},
                     {.input_fn = test, .steps = std::nullopt});
  config.model_dir = directory / "live";
  Estimator b(two_layers, config, params);
  b.train(input, {.max_steps = 10,
                  .hooks = {live, hooks::in_memory_evaluator(b, test, {.every_n_iter = 4})}});
  EXPECT_TRUE(same_bits(latest(directory / "saved"), latest(directory / "live")));
  ASSERT_TRUE(saved->all.contains(4) && saved->all.contains(8));
  for (const int64_t step : {4, 8}) EXPECT_EQ(live->all[step], saved->all[step]) << step;
  EXPECT_TRUE(live->all.contains(0));
}

TEST(InMemoryEvaluatorTest, IsForOneReplica) {
  TempDirectory directory;
  Estimator estimator(two_layers,
                      quiet_config(directory / "m", distribute::mirrored({.replicas = 2})));
  const InputFn input = [] { return examples(24).global_batch(12); };
  EXPECT_THAT(message_of([&] {
                estimator.train(input, {.hooks = {hooks::in_memory_evaluator(estimator, input)}});
              }),
              HasSubstr("evaluates what one replica trains; this is mode train on 2"));
  EXPECT_EQ(message_of([&] { hooks::in_memory_evaluator(estimator, input, {.every_n_iter = 0}); }),
            "hooks::in_memory_evaluator got every_n_iter = 0; it must be 1 or more");
}

}  // namespace
}  // namespace muster::inline v0_1
