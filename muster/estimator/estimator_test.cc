#include "muster/estimator/estimator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <csignal>
#include <set>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/base/fault_file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/formats/event.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using testing::examples;
using ::testing::HasSubstr;
using testing::latest;
using testing::quiet_config;
using testing::same_bits;
using testing::shuffled_batches;
using testing::two_layers;

TEST(EstimatorTest, TrainsAndTheLossFalls) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"), {{"optimizer", "adam"}});
  const EvalResult before =
      estimator.evaluate(shuffled_batches(200, 50, 1), {.allow_untrained = true});
  const TrainResult trained = estimator.train(shuffled_batches(200, 20), {.max_steps = 200});
  EXPECT_EQ(trained.global_step, 200);
  const EvalResult after = estimator.evaluate(shuffled_batches(200, 50, 1));
  EXPECT_LT(after.at("loss"), before.at("loss") / 2);
  EXPECT_GT(after.at("accuracy"), 0.95);
  EXPECT_EQ(after.at("global_step"), 200);
}

TEST(EstimatorTest, StepsAreRelativeAndMaxStepsAbsolute) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  EXPECT_EQ(estimator.train(shuffled_batches(64, 8), {.steps = 10}).global_step, 10);
  EXPECT_EQ(estimator.train(shuffled_batches(64, 8), {.steps = 10}).global_step, 20);
  EXPECT_EQ(estimator.train(shuffled_batches(64, 8), {.max_steps = 25}).steps, 5);
  const TrainResult reached = estimator.train(shuffled_batches(64, 8), {.max_steps = 25});
  EXPECT_EQ(reached.steps, 0);
  EXPECT_EQ(reached.global_step, 25);
}

TEST(EstimatorTest, TheEndOfTheInputEndsTraining) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  const TrainResult result = estimator.train(shuffled_batches(25, 10, 2), {.max_steps = 1000});
  EXPECT_TRUE(result.end_of_input);
  EXPECT_EQ(result.global_step, 5);  // 50 examples in batches of 10
  EXPECT_EQ(latest(directory / "m").global_step, 5);
}

TEST(EstimatorTest, AnotherBatchSizeOfAContinuedRunIsReported) {
  TempDirectory directory;
  const RunConfig config = quiet_config(directory / "m");
  const auto continued = [&](int64_t batch, int64_t steps) {
    ::testing::internal::CaptureStderr();
    Estimator(two_layers, config).train(shuffled_batches(64, batch), {.max_steps = steps});
    return ::testing::internal::GetCapturedStderr();
  };
  continued(8, 3);
  EXPECT_EQ(continued(8, 4).find("examples a step"), std::string::npos);
  EXPECT_THAT(continued(16, 5), HasSubstr("was trained with 8 examples a step, now it is 16"));
}

TEST(EstimatorTest, AContinuedRunKeepsItsOrderAndItsData) {
  TempDirectory directory;
  RunConfig config = quiet_config(directory / "m");
  Estimator(two_layers, config).train(shuffled_batches(64, 8), {.max_steps = 3});
  config.random_seed = 5;
  ::testing::internal::CaptureStderr();
  Estimator(two_layers, config).train(shuffled_batches(64, 8), {.max_steps = 4});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the run began with seed 0, now it is 5: the order of the data stays"));
  const Error other = error_of([&] {
    Estimator(two_layers, quiet_config(directory / "m"))
        .train(shuffled_batches(32, 8), {.max_steps = 5});
  });
  EXPECT_EQ(other.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(other.message(), HasSubstr("model.ckpt-4 cannot be continued with this input: "));
  EXPECT_THAT(other.hint(), HasSubstr("or in another model_dir"));
}

TEST(EstimatorTest, SavesAtTheStartEveryNStepsAndAtTheEnd) {
  TempDirectory directory;
  RunConfig config = quiet_config(directory / "m");
  config.keep_checkpoint_max = 0;
  Estimator estimator(two_layers, config);
  estimator.train(shuffled_batches(64, 8), {.max_steps = 22});
  std::vector<int64_t> steps;
  for (const std::string& prefix : CheckpointManager(directory / "m").all())
    steps.push_back(checkpoint_step(prefix));
  EXPECT_THAT(steps, ::testing::ElementsAre(0, 10, 20, 22));
}

// Promise 4 and 5: stopping anywhere, also in the middle of an epoch, and continuing gives the bits
// of one run.
class ResumeTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ResumeTest, IsExactMidEpoch) {
  TempDirectory directory;
  const json params{{"optimizer", GetParam()}, {"dropout", 0.3}};
  Estimator whole(two_layers, quiet_config(directory / "whole"), params);
  whole.train(shuffled_batches(50, 7), {.max_steps = 23});
  for (int64_t stop : {3, 10, 17}) {
    const std::string model_dir = directory / ("parts" + std::to_string(stop));
    for (int64_t end : {stop, int64_t{23}}) {
      Estimator part(two_layers, quiet_config(model_dir), params);
      part.train(shuffled_batches(50, 7), {.max_steps = end});
    }
    EXPECT_TRUE(same_bits(latest(model_dir), latest(directory / "whole")))
        << "stopped after " << stop;
  }
}
INSTANTIATE_TEST_SUITE_P(Optimizers, ResumeTest, ::testing::Values("sgd", "momentum", "adam"));

TEST(EstimatorTest, EachExampleOncePerEpochAcrossRestarts) {
  TempDirectory directory;
  std::vector<int64_t> seen;
  const ModelFn recording = [&](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
    // The build pass sees the first batch too, without autograd; only training steps count.
    if (torch::GradMode::is_enabled()) {
      const Tensor& ids = features["id"];
      for (int64_t i = 0; i < ids.size(0); ++i) seen.push_back(ids[i].item<int64_t>());
    }
    return two_layers(features, labels, mode, context);
  };
  for (int64_t end : {2, 3, 8, 12}) {
    Estimator estimator(recording, quiet_config(directory / "m"));
    estimator.train(shuffled_batches(30, 5), {.max_steps = end});
  }
  ASSERT_EQ(seen.size(), 60u);
  for (int epoch = 0; epoch < 2; ++epoch) {
    const std::set<int64_t> unique(seen.begin() + epoch * 30, seen.begin() + (epoch + 1) * 30);
    EXPECT_EQ(unique.size(), 30u) << "epoch " << epoch;
  }
}

TEST(EstimatorTest, TheCheckpointBeforeTheFirstStepLosesNoBatch) {
  TempDirectory directory;
  class FailAtOnce : public Hook {
   public:
    void after_step(const StepInfo&) override { throw internal_error("the power went"); }
  };
  const Error error = error_of([&] {
    Estimator(two_layers, quiet_config(directory / "m"))
        .train(shuffled_batches(50, 7),
               {.max_steps = 12, .hooks = {std::make_shared<FailAtOnce>()}});
  });
  EXPECT_EQ(error.message(), "the power went; in FailAtOnce::after_step() at step 1");
  EXPECT_EQ(latest(directory / "m").global_step, 0);
  Estimator(two_layers, quiet_config(directory / "m"))
      .train(shuffled_batches(50, 7), {.max_steps = 12});
  Estimator(two_layers, quiet_config(directory / "whole"))
      .train(shuffled_batches(50, 7), {.max_steps = 12});
  EXPECT_TRUE(same_bits(latest(directory / "m"), latest(directory / "whole")));
}

TEST(EstimatorTest, TheSameSeedGivesTheSameBitsAnotherSeedOthers) {
  TempDirectory directory;
  for (const auto& [name, seed] : {std::pair{"a", 7u}, std::pair{"b", 7u}, std::pair{"c", 8u}}) {
    RunConfig config = quiet_config(directory / name);
    config.random_seed = seed;
    Estimator(two_layers, config).train(shuffled_batches(50, 7), {.max_steps = 12});
  }
  EXPECT_TRUE(same_bits(latest(directory / "a"), latest(directory / "b")));
  EXPECT_FALSE(same_bits(latest(directory / "a"), latest(directory / "c")));
}

TEST(EstimatorTest, TwoThreadsTwoEstimators) {
  TempDirectory directory;
  const auto run = [&](const std::string& model_dir, uint64_t seed) {
    RunConfig config = quiet_config(directory / model_dir);
    config.random_seed = seed;
    Estimator estimator(two_layers, config, {{"optimizer", "adam"}, {"dropout", 0.2}});
    train_and_evaluate(estimator, {.input_fn = shuffled_batches(50, 7), .max_steps = 40},
                       {.input_fn = shuffled_batches(50, 25, 1)});
  };
  for (uint64_t seed : {1, 2}) run(fmt::format("alone{}", seed), seed);
  std::thread other([&] { run("beside1", 1); });
  run("beside2", 2);
  other.join();
  for (int seed : {1, 2}) {
    EXPECT_TRUE(same_bits(latest(directory / fmt::format("alone{}", seed)),
                          latest(directory / fmt::format("beside{}", seed))));
  }
}

// Bytes the program holds on the heap; always 0 under the sanitizers, which look for leaks
// themselves.
size_t heap_in_use() { return mallinfo2().uordblks; }

TEST(EstimatorTest, NothingPilesUpOverManyCalls) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"), {{"optimizer", "adam"}});
  const auto round = [&] {
    estimator.train(shuffled_batches(40, 8), {.steps = 1});
    for (int i = 0; i < 20; ++i) estimator.evaluate(shuffled_batches(40, 8, 1));
    Predictions predictions = estimator.predict(shuffled_batches(40, 8, 1));
    while (predictions.next()) continue;
  };
  for (int i = 0; i < 3; ++i) round();  // made only once
  const size_t before = heap_in_use();
  for (int i = 0; i < 10; ++i) round();
  EXPECT_LT(heap_in_use(), before + 100'000);  // 500 bytes an evaluation would show
}

TEST(EstimatorTest, AMisspeltPredictionIsNamed) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  estimator.train(shuffled_batches(40, 8), {.steps = 1});
  for (const bool single : {true, false}) {
    Predictions predictions =
        estimator.predict(shuffled_batches(40, 8, 1), {.yield_single_examples = single});
    std::optional<Prediction> prediction;
    ASSERT_TRUE(prediction = predictions.next());
    const std::string name = prediction->begin()->first;
    EXPECT_TRUE((*prediction)[name].defined());
    const Error error = error_of([&] { (void)prediction->at(name + "s"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error.hint(), "did you mean '" + name + "'?");
  }
}

TEST(EstimatorTest, VariablesAreReadByName) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"), {{"optimizer", "momentum"}});
  EXPECT_EQ(error_of([&] { (void)estimator.get_variable_names(); }).kind(), ErrorKind::kNotFound);
  estimator.train(shuffled_batches(50, 5), {.max_steps = 3});
  // As tf.estimator: slots and global_step, and no separate counter of the optimizer.
  EXPECT_THAT(estimator.get_variable_names(),
              ::testing::ElementsAre(
                  "SGD/momentum/net/dense/bias", "SGD/momentum/net/dense/kernel",
                  "SGD/momentum/net/dense_1/bias", "SGD/momentum/net/dense_1/kernel", "global_step",
                  "net/dense/bias", "net/dense/kernel", "net/dense_1/bias", "net/dense_1/kernel"));
  EXPECT_EQ(estimator.get_variable_value("global_step").item<int64_t>(), 3);
  EXPECT_EQ(estimator.get_variable_value("SGD/iterations").item<int64_t>(), 3);
  EXPECT_EQ(estimator.get_variable_value("net/dense/kernel").sizes(), (at::IntArrayRef{10, 16}));
  EXPECT_EQ(error_of([&] { (void)estimator.get_variable_value("net/dense/kernal"); }).hint(),
            "did you mean 'net/dense/kernel'?");
  EXPECT_EQ(error_of([&] { (void)estimator.get_variable_value("no"); }).kind(),
            ErrorKind::kNotFound);
}

TEST(EstimatorTest, TensorBoardFindsLossRatesAndMetrics) {
  TempDirectory directory;
  RunConfig config = quiet_config(directory / "m");
  config.save_summary_steps = config.log_step_count_steps = 5;
  const ModelFn measured = [](const Features& features, const Labels& labels, Mode mode,
                              ModelContext& context) {
    EstimatorSpec spec = two_layers(features, labels, mode, context);
    spec.train_metrics["id"] = metrics::mean(features["id"]);
    return spec;
  };
  {
    Estimator estimator(measured, config);
    train_and_evaluate(estimator, {.input_fn = shuffled_batches(50, 5), .max_steps = 20},
                       {.input_fn = shuffled_batches(50, 25, 1)});
  }
  std::map<std::string, std::vector<int64_t>> steps;
  for (const std::string& folder : {directory / "m", directory / "m/eval"}) {
    const auto files = formats::list_event_files(local_file_system(), folder).value();
    ASSERT_EQ(files.size(), 1u) << folder;
    for (const auto& event : formats::read_events(local_file_system(), files[0]).value().events) {
      for (const auto& value : event.values)
        steps[base_name(folder).data() + ("/" + value.tag)].push_back(event.step);
    }
  }
  // One cadence for all: tf.estimator's.
  EXPECT_THAT(steps["m/loss"], ::testing::ElementsAre(1, 6, 11, 16));
  EXPECT_THAT(steps["m/id"], ::testing::ElementsAre(1, 6, 11, 16));
  EXPECT_THAT(steps["m/global_step/sec"], ::testing::ElementsAre(6, 11, 16));
  EXPECT_THAT(steps["m/examples/sec"], ::testing::ElementsAre(6, 11, 16));
  EXPECT_THAT(steps["eval/accuracy"], ::testing::ElementsAre(10, 20));
  EXPECT_THAT(steps["eval/loss"], ::testing::ElementsAre(10, 20));
}

class Rates : public Hook {
 public:
  void after_step(const StepInfo& info) override {
    if (info.metrics) rates[info.global_step] = info.metrics->at("learning_rate");
  }
  std::map<int64_t, double> rates;
};

// A run that was cut in two has the same rates and bits as an uncut one, also if an update takes
// two batches.
TEST(EstimatorTest, ASchedulesRateIsToldAndResumed) {
  const auto rate = optim::linear_warmup(
      {.warmup_steps = 4,
       .then = optim::cosine_decay({.initial_learning_rate = 0.1, .decay_steps = 6})});
  const ModelFn scheduled = [&](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
    EstimatorSpec spec = two_layers(features, labels, mode, context);
    const auto adam = context.optimizer(optim::adam({.learning_rate = rate}));
    if (mode == Mode::kTrain) spec.train_op = adam.minimize(spec.loss);
    return spec;
  };
  TempDirectory directory;
  const auto train = [&](const std::string& name, int64_t max_steps, int64_t accumulate_steps) {
    RunConfig config = quiet_config(directory / name);
    config.log_step_count_steps = 1;
    config.accumulate_steps = accumulate_steps;
    const auto rates = std::make_shared<Rates>();
    Estimator(scheduled, config)
        .train(shuffled_batches(50, 7), {.max_steps = max_steps, .hooks = {rates}});
    return rates->rates;
  };
  for (const int64_t accumulate_steps : {1, 2}) {
    const std::string whole = "whole" + std::to_string(accumulate_steps);
    const std::string cut = "cut" + std::to_string(accumulate_steps);
    const auto rates = train(whole, 12, accumulate_steps);
    ASSERT_EQ(rates.size(), 12u);
    for (const auto& [step, value] : rates) EXPECT_EQ(value, rate.at(step - 1)) << step;
    EXPECT_NEAR(rates.at(3), 0.05, 1e-15);
    EXPECT_NEAR(rates.at(8), 0.05, 1e-15);
    auto resumed = train(cut, 5, accumulate_steps);
    resumed.merge(train(cut, 12, accumulate_steps));
    EXPECT_EQ(resumed, rates);
    EXPECT_TRUE(same_bits(latest(directory / whole), latest(directory / cut)));
  }
}

TEST(EstimatorTest, RefusesBadArguments) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  EXPECT_THAT(error_of([&] {
                estimator.train(shuffled_batches(8, 8), {.steps = 1, .max_steps = 1});
              }).what(),
              HasSubstr("both steps"));
  EXPECT_THAT(error_of([&] { estimator.train(shuffled_batches(8, 8), {.steps = 0}); }).what(),
              HasSubstr("steps = 0"));
  EXPECT_THAT(error_of([&] { estimator.evaluate(shuffled_batches(8, 8), {.steps = -1}); }).what(),
              HasSubstr("steps = -1"));
  EXPECT_THAT(
      error_of([&] { estimator.train([] { return examples(8).take(0).batch(2); }); }).what(),
      HasSubstr("gave no data"));
  RunConfig both = quiet_config(directory / "m");
  both.save_checkpoints_secs = Seconds(60);
  EXPECT_THAT(error_of([&] { Estimator e(two_layers, both); }).what(),
              HasSubstr("both save_checkpoints_steps"));
}

TEST(EstimatorTest, AWorkerOnlyClusterNeedsAStrategyForIt) {
  TempDirectory directory;
  RunConfig config = quiet_config(directory / "m");
  config.environment =
      Environment({{"TF_CONFIG",
                    R"({"cluster": {"worker": ["127.0.0.1:2222", "127.0.0.1:2223"]},
                                         "task": {"type": "worker", "index": 0}})"}});
  Estimator estimator(two_layers, config);
  const Error error = error_of([&] { estimator.train(shuffled_batches(8, 8), {.max_steps = 1}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("chief"));
}

TEST(StopTest, ASignalSavesAndTheNextRunContinuesBitForBit) {
  TempDirectory directory;
  Estimator(two_layers, quiet_config(directory / "whole"))
      .train(shuffled_batches(50, 7), {.max_steps = 23});
  class Interrupt : public Hook {
   public:
    void after_step(const StepInfo& info) override {
      if (info.global_step == 13) std::raise(SIGINT);
    }
  };
  install_stop_handlers();
  Estimator stopped(two_layers, quiet_config(directory / "m"));
  const Error error = error_of([&] {
    stopped.train(shuffled_batches(50, 7),
                  {.max_steps = 23, .hooks = {std::make_shared<Interrupt>()}});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  EXPECT_EQ(latest(directory / "m").global_step, 13);
  clear_stop_signal();
  Estimator(two_layers, quiet_config(directory / "m"))
      .train(shuffled_batches(50, 7), {.max_steps = 23});
  EXPECT_TRUE(same_bits(latest(directory / "m"), latest(directory / "whole")));
}

TEST(TrainTest, ARunThatIsOverLooksAtNothing) {
  TempDirectory directory;
  Estimator(two_layers, quiet_config(directory / "m"))
      .train(shuffled_batches(20, 5), {.max_steps = 3});
  const ModelFn never = [](const Features&, const Labels&, Mode, ModelContext&) -> EstimatorSpec {
    throw internal_error("the model function was called");
  };
  const TrainResult result =
      Estimator(never, quiet_config(directory / "m"))
          .train([] { return examples(20).take(0).batch(5); }, {.max_steps = 3});
  EXPECT_EQ(result.global_step, 3);
  EXPECT_EQ(result.steps, 0);
}

TEST(TrainTest, HooksBeginBeforeAnythingElse) {
  TempDirectory directory;
  std::vector<std::string> calls;
  class Recorder : public Hook {
   public:
    explicit Recorder(std::vector<std::string>& calls) : calls_(calls) {}
    void begin(const RunInfo&) override { calls_.push_back("begin"); }
    void after_step(const StepInfo&) override { calls_.push_back("step"); }
    void after_save(int64_t, const std::string&) override { calls_.push_back("save"); }
    void end(int64_t) override { calls_.push_back("end"); }

   private:
    std::vector<std::string>& calls_;
  };
  Estimator(two_layers, quiet_config(directory / "m"))
      .train(shuffled_batches(20, 5),
             {.max_steps = 2, .hooks = {std::make_shared<Recorder>(calls)}});
  EXPECT_EQ(calls, (std::vector<std::string>{"begin", "save", "step", "step", "save", "end"}));
}

TEST(StopTest, AHookEndsTheRun) {
  TempDirectory directory;
  class StopAt : public Hook {
   public:
    void after_step(const StepInfo& info) override {
      if (info.global_step == 6) info.control.request_stop();
    }
  };
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  const TrainResult result = estimator.train(
      shuffled_batches(50, 7), {.max_steps = 23, .hooks = {std::make_shared<StopAt>()}});
  EXPECT_EQ(result.global_step, 6);
  EXPECT_EQ(latest(directory / "m").global_step, 6);
}

}  // namespace
}  // namespace muster::inline v0_1
