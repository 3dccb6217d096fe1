// Tests on the CPU device of XLA, whose compiler and runtime are those of a TPU. MUSTER_PYTHON
// names the Python with the packages; without it these tests are skipped. `./dev check xla` runs
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/internal/many_layers.h"
#include "muster/export/servable.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "muster/tensor/device.h"
#include "muster/tensor/device_library.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using distribute::one_device;
using nlohmann::json;
using testing::attends;
using testing::examples;
using testing::largest_difference;
using testing::many_layers;
using testing::quiet_config;
using testing::train;
using testing::two_layers;

// A step's sums are made in another order there. Float32 rounds at 6e-8, and nine steps of a small
// model amplify this.
constexpr double kRounding = 1e-5;

class XlaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // These tests need torch_xla, and a LibTorch of its version.
    if (std::getenv("MUSTER_PYTHON") == nullptr)
      GTEST_SKIP() << "MUSTER_PYTHON is not set: ./dev check xla runs this with the packages";
    setenv("PJRT_DEVICE", "CPU", /*overwrite=*/0);
    // LibTorch's threads for gradients know the devices that were there at the first backward().
    parse_device("xla:0");
  }

  TempDirectory directory_;
};

TEST_F(XlaTest, TrainsWhatTheCpuTrains) {
  for (const char* optimizer : {"sgd", "momentum", "adam", "adagrad", "clipped"}) {
    const json params{{"optimizer", optimizer}};
    const std::string name = optimizer;
    const Checkpoint here = train(directory_ / name, one_device(), two_layers, params);
    const Checkpoint there =
        train(directory_ / (name + "_xla"), one_device("xla:0"), two_layers, params);
    EXPECT_LT(largest_difference(there, here), kRounding) << optimizer;
  }
}

TEST_F(XlaTest, AccumulatesAsTheCpuDoes) {
  const json params{{"accumulate", 2}};
  const Checkpoint here = train(directory_ / "cpu", one_device(), two_layers, params);
  const Checkpoint there = train(directory_ / "xla", one_device("xla:0"), two_layers, params);
  EXPECT_LT(largest_difference(there, here), kRounding);
}

TEST_F(XlaTest, EvaluatesAndPredictsThere) {
  train(directory_ / "m", one_device(), two_layers, json::object());
  const InputFn held_out = [] { return examples(37, 2).batch(5); };
  RunConfig config = quiet_config(directory_ / "m");
  Estimator here(two_layers, config);
  config.eval_distribute = one_device("xla:0");
  Estimator there(two_layers, config);
  const EvalResult expected = here.evaluate(held_out), result = there.evaluate(held_out);
  EXPECT_NEAR(result.at("loss"), expected.at("loss"), kRounding);
  EXPECT_EQ(result.at("accuracy"), expected.at("accuracy"));
  Predictions a = here.predict(held_out), b = there.predict(held_out);
  std::optional<Prediction> other;
  while (const auto one = a.next()) {
    ASSERT_TRUE(other = b.next());
    for (const auto& [name, value] : *one) {
      ASSERT_TRUE(other->at(name).is_cpu());
      EXPECT_TRUE(other->at(name).to(kFloat64).allclose(value.to(kFloat64), kRounding, kRounding))
          << name;
    }
  }
  EXPECT_FALSE(b.next());
}

TEST_F(XlaTest, ARunContinuesThereAndBackOnTheCpu) {
  const json params{{"optimizer", "momentum"}};
  const Checkpoint whole = train(directory_ / "whole", one_device(), two_layers, params, 9);
  train(directory_ / "m", one_device(), two_layers, params, 3);
  train(directory_ / "m", one_device("xla:0"), two_layers, params, 6);
  const Checkpoint parts = train(directory_ / "m", one_device(), two_layers, params, 9);
  EXPECT_LT(largest_difference(parts, whole), kRounding);
}

// A layer of each kind, with a table of which a step changes a few rows.
TEST_F(XlaTest, LayersOfEachKind) {
  const json params{{"optimizer", "momentum"}};
  const Checkpoint here = train(directory_ / "cpu", one_device(), many_layers, params);
  const Checkpoint there = train(directory_ / "xla", one_device("xla:0"), many_layers, params);
  EXPECT_LT(largest_difference(there, here), kRounding);
}

TEST_F(XlaTest, AttendsAsTheCpuDoes) {
  const Checkpoint here = train(directory_ / "cpu", one_device(), attends, json::object());
  const Checkpoint there = train(directory_ / "xla", one_device("xla:0"), attends, json::object());
  EXPECT_LT(largest_difference(there, here), kRounding);
  // Numbers rounded to 8 bits on the way are learned nearly as well.
  const Checkpoint mixed =
      train(directory_ / "mixed", one_device("xla:0"), attends, {{"precision", "bfloat16"}});
  EXPECT_LT(largest_difference(mixed, here), 0.1);
}

TEST_F(XlaTest, LoopsByHandRunThere) {
  const auto loop = [](const distribute::StrategyPtr& strategy) {
    const Layer model = Dense(1);
    const auto scope = strategy->scope({.seed = 5, .environment = Environment()});
    for (const auto& batch : strategy->distribute(examples(50).shuffle(50).batch(8))) {
      (void)strategy->run(
          [&](const Features& features, const Labels& labels) {
            const Tensor loss = losses::mean_squared_error(labels.tensor().to(kFloat32),
                                                           model(features["x"]).squeeze(-1));
            (void)optim::adam().minimize(loss);
            return loss.detach();
          },
          batch);
    }
    return scope.variable("dense/kernel").cpu();
  };
  EXPECT_TRUE(loop(one_device("xla:0")).allclose(loop(one_device()), kRounding, kRounding));
}

TEST_F(XlaTest, AModelThatTrainedThereIsExported) {
  train(directory_ / "m", one_device("xla:0"), two_layers, {{"optimizer", "momentum"}});
  RunConfig config = quiet_config(directory_ / "m", one_device("xla:0"));
  config.eval_distribute = one_device("xla:0");
  Estimator there(two_layers, config, {{"optimizer", "momentum"}});
  const Servable served(
      there
          .export_model(directory_ / "export",
                        raw_serving_input_receiver({{"x", {kFloat32, {testing::kFeatures}}}}))
          .value());
  const auto rows = [] { return examples(16).batch(16); };
  std::optional<Element> batch;
  ASSERT_TRUE(batch = rows().iterator()->next());
  const Tensor x = batch->part(0).at("x").value().tensor();
  const auto outputs = served.run(kServingDefault, {{"x", x}});
  PredictOptions whole;
  whole.yield_single_examples = false;
  std::optional<Prediction> expected;
  Predictions predictions = there.predict(rows, whole);
  ASSERT_TRUE(expected = predictions.next());
  EXPECT_TRUE(outputs.at("logits").allclose(expected->at("logits"), kRounding, kRounding));
}

// LibTorch's own random operations follow the seed of the run there.
TEST_F(XlaTest, OperationsOfLibTorchThatDrawFollowTheSeed) {
  const ModelFn drops = [](const Features& features, const Labels& labels, Mode,
                           ModelContext& context) {
    const Tensor seen = torch::dropout(features["x"], 0.5, /*train=*/true);
    const Tensor logits = context.model("net", [] { return Dense(2); })(seen);
    const Tensor loss =
        losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
    return EstimatorSpec::train(loss, context.optimizer(optim::sgd()).minimize(loss));
  };
  const auto once = [&](const std::string& name, uint64_t seed) {
    RunConfig config = quiet_config(directory_ / name, one_device("xla:0"));
    config.random_seed = seed;
    Estimator(drops, config)
        .train([] { return examples(53).repeat().batch(12); }, {.max_steps = 4});
    return testing::latest(directory_ / name);
  };
  const Checkpoint first = once("first", 3);
  EXPECT_EQ(largest_difference(once("again", 3), first), 0);
  EXPECT_GT(largest_difference(once("other", 4), first), 0);
}

// The last of the batches has 2 rows.
TEST_F(XlaTest, TheLastBatchOfPredictionsNeedsNoProgramOfItsOwn) {
  train(directory_ / "m", one_device(), two_layers, json::object());
  RunConfig config = quiet_config(directory_ / "m");
  config.eval_distribute = one_device("xla:0");
  Estimator there(two_layers, config);
  Predictions predictions = there.predict([] { return examples(37, 2).batch(7); });
  int rows = 0;
  for (; rows < 35; ++rows) ASSERT_TRUE(predictions.next());
  DeviceLibrary* const library = device_library(at::kXLA);
  const int64_t before = library->compilations();
  while (predictions.next()) ++rows;
  EXPECT_EQ(rows, 37);
  EXPECT_EQ(library->compilations(), before);
}

// The loss is read when the update has run, too.
TEST_F(XlaTest, AStepIsOneProgram) {
  struct CountsPrograms : Hook {
    void after_step(const StepInfo& info) override {
      (void)static_cast<double>(info.loss);
      runs.push_back(device_library(at::kXLA)->runs());
    }
    std::vector<int64_t> runs;
  };
  const auto counts = std::make_shared<CountsPrograms>();
  Estimator there(two_layers, quiet_config(directory_ / "m", one_device("xla:0")),
                  {{"optimizer", "momentum"}});
  there.train([] { return examples(53).repeat().batch(12); }, {.max_steps = 8, .hooks = {counts}});
  ASSERT_EQ(counts->runs.size(), 8u);
  for (size_t step = 3; step < 8; ++step)
    EXPECT_EQ(counts->runs[step] - counts->runs[step - 1], 1) << step;
}

// Though the update is recorded before the loss is known.
TEST_F(XlaTest, ALossThatIsNotFiniteUpdatesNothing) {
  const Layer model = Dense(1);
  const auto strategy = one_device("xla:0");
  const auto scope = strategy->scope({.seed = 5, .environment = Environment()});
  const auto optimizer = optim::adam();
  const auto step = [&](double factor) {
    auto batches = strategy->distribute(examples(8).batch(8));
    (void)strategy->run(
        [&](const Features& features, const Labels& labels) {
          const Tensor loss = losses::mean_squared_error(labels.tensor().to(kFloat32),
                                                         model(features["x"]).squeeze(-1)) *
                              factor;
          (void)optimizer.minimize(loss);
          return loss.detach();
        },
        *batches.begin());
  };
  for (int i = 0; i < 3; ++i) step(1);
  const Tensor before = scope.variable("dense/kernel").cpu().clone();
  const Error error = error_of([&] { step(std::numeric_limits<double>::infinity()); });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_THAT(error.message(), ::testing::HasSubstr("the loss is inf"));
  EXPECT_TRUE(torch::equal(scope.variable("dense/kernel").cpu(), before));
}

// All batches have 12 rows until step 9, which has 10.
TEST_F(XlaTest, NothingIsCompiledAfterTheSecondStepOfFixedShapes) {
  const json params{{"optimizer", "momentum"}};
  train(directory_ / "short", one_device("xla:0"), two_layers, params, 3);
  DeviceLibrary* const library = device_library(at::kXLA);
  ASSERT_NE(library, nullptr);
  const int64_t before = library->compilations();
  ASSERT_GT(before, 0);
  train(directory_ / "long", one_device("xla:0"), two_layers, params, 8);
  EXPECT_EQ(library->compilations(), before);
  train(directory_ / "long", one_device("xla:0"), two_layers, params, 9);
  EXPECT_GT(library->compilations(), before);
}

}  // namespace
}  // namespace muster::inline v0_1
