// Invariants of other optimizer state besides moments: averages, slow weights, loss scales.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using testing::examples;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::latest;
using testing::LocalCluster;
using testing::quiet_config;
using testing::same_bits;
using testing::two_layers;

constexpr double kDecay = 0.75;

optim::Optimizer kept(const std::string& what) {
  const auto adam = optim::adam({.learning_rate = 0.01});
  const auto momentum = optim::sgd({.learning_rate = 0.1, .momentum = 0.9});
  if (what == "average") return optim::exponential_moving_average(adam, {.decay = kDecay});
  if (what == "factors") return optim::adafactor({.learning_rate = 0.1});
  if (what == "plateaus")
    return optim::reduce_on_plateau(adam,
                                    {.steps = 2, .factor = 0.5, .patience = 1, .min_delta = 1});
  if (what == "slow") return optim::look_ahead(adam, {.sync_period = 4});
  if (what == "overwritten average of slow")
    return optim::exponential_moving_average(optim::look_ahead(momentum, {.sync_period = 3}),
                                             {.decay = kDecay, .overwrite_frequency = 7});
  if (what == "dynamic scale")
    return optim::loss_scaling(optim::clip_by_global_norm(adam, 0.1), {.dynamic_growth_steps = 3});
  if (what == "large scale")
    return optim::loss_scaling(momentum, {.initial_scale = std::ldexp(1.0, 127)});
  if (what == "fixed scale") return optim::loss_scaling(momentum, {.dynamic = false});
  return momentum;
}

// params: "kept".
EstimatorSpec kept_state_model(const Features& features, const Labels& labels, Mode mode,
                               ModelContext& context) {
  EstimatorSpec spec = two_layers(features, labels, mode, context);
  if (mode == Mode::kTrain)
    spec.train_op = context.optimizer(kept(context.param<std::string>("kept"))).minimize(spec.loss);
  return spec;
}

InputFn training_input() {
  return [] { return examples(53).shuffle(53).repeat(5).global_batch(12); };
}

Checkpoint train(const std::string& model_dir, const std::string& what, int64_t max_steps,
                 const distribute::StrategyPtr& strategy = distribute::one_device(),
                 const Environment& environment = {}) {
  Estimator(kept_state_model, quiet_config(model_dir, strategy, environment), {{"kept", what}})
      .train(training_input(), {.max_steps = max_steps});
  return latest(model_dir);
}

class KeptStateTest : public ::testing::TestWithParam<std::string> {};

TEST_P(KeptStateTest, ReplicasKeepTheSameAndARunThatResumesContinuesIt) {
  TempDirectory directory;
  const Checkpoint one = train(directory / "one", GetParam(), 20);
  for (int n : {2, 3}) {
    const auto many =
        train(directory / std::to_string(n), GetParam(), 20, distribute::mirrored({.replicas = n}));
    EXPECT_LT(largest_difference(many, one), 2e-5) << n << " replicas";
  }
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    train(directory / "workers", GetParam(), 20, distribute::multi_worker_mirrored(),
          cluster.environment(rank));
  });
  EXPECT_TRUE(same_bits(latest(directory / "workers"), latest(directory / "2")));
  train(directory / "again", GetParam(), 9);
  EXPECT_TRUE(same_bits(train(directory / "again", GetParam(), 20), one));
}
INSTANTIATE_TEST_SUITE_P(Kept, KeptStateTest,
                         ::testing::Values("average", "slow", "overwritten average of slow",
                                           "dynamic scale", "factors", "plateaus"));

// As long as nothing overflows or vanishes, a power of two changes no bit.
TEST(LossScaleLawTest, AFixedScaleComputesWhatNoScaleComputes) {
  TempDirectory directory;
  for (int n : {1, 2}) {
    const auto replicas = distribute::mirrored({.replicas = n});
    const std::string name = std::to_string(n);
    EXPECT_TRUE(same_bits(train(directory / ("scaled" + name), "fixed scale", 20, replicas),
                          train(directory / ("plain" + name), "", 20, replicas)));
  }
}

TEST(LossScaleLawTest, AScaleThatIsTooLargeFallsOnAllReplicas) {
  TempDirectory directory;
  const auto replicas = distribute::mirrored({.replicas = 3});
  const Checkpoint state = train(directory / "m", "large scale", 20, replicas);
  const auto updates = state.tensors.at("SGD/iterations").item<int64_t>();
  EXPECT_EQ(state.global_step, 20);
  EXPECT_GT(updates, 5);
  EXPECT_LT(updates, 20);
  EXPECT_EQ(state.tensors.at("SGD/loss_scale").item<double>(),
            std::ldexp(1.0, 127 - static_cast<int>(20 - updates)));
  EXPECT_EQ(state.tensors.at("SGD/good_steps").item<int64_t>(), updates);
  train(directory / "again", "large scale", 2, replicas);
  EXPECT_TRUE(same_bits(train(directory / "again", "large scale", 20, replicas), state));
}

// A plateau every second value, of two steps each.
TEST(PlateauLawTest, TheRateFallsAndIsReported) {
  struct Rates : Hook {
    void after_step(const StepInfo& info) override {
      rates.push_back(info.metrics->at("learning_rate"));
    }
    std::vector<double> rates;
  };
  TempDirectory directory;
  const auto rates = std::make_shared<Rates>();
  RunConfig config = quiet_config(directory / "m");
  config.log_step_count_steps = 1;
  Estimator(kept_state_model, config, {{"kept", "plateaus"}})
      .train(training_input(), {.max_steps = 9, .hooks = {rates}});
  EXPECT_THAT(rates->rates, ::testing::ElementsAre(0.01, 0.01, 0.01, 0.01, 0.005, 0.005, 0.0025,
                                                   0.0025, 0.00125));
}

class AverageTest : public ::testing::Test {
 protected:
  Estimator estimator(const std::string& model_dir, const std::string& what = "average",
                      int64_t save_steps = 1) const {
    RunConfig config = quiet_config(directory_ / model_dir);
    config.save_checkpoints_steps = save_steps;
    config.keep_checkpoint_max = 0;
    return Estimator(kept_state_model, config, {{"kept", what}});
  }
  static InputFn evaluated() {
    return [] { return examples(40, /*seed=*/2).batch(8); };
  }
  static Tensor predicted(Estimator& estimator, const PredictOptions& options) {
    Predictions predictions = estimator.predict(evaluated(), options);
    std::vector<Tensor> logits;
    while (const auto one = predictions.next()) logits.push_back(one->at("logits"));
    return torch::stack(logits);
  }

  TempDirectory directory_;
};

// Averages are computed anew from the weights of every step, and put into a checkpoint of their
// own.
TEST_F(AverageTest, AreEvaluatedAndPredictedFromInsteadOfTheWeights) {
  Estimator trained = estimator("m");
  trained.train(training_input(), {.max_steps = 8});
  const CheckpointManager checkpoints(directory_ / "m");
  std::map<std::string, Tensor> averages;
  Checkpoint last;
  for (int64_t step = 0; step <= 8; ++step) {
    last = checkpoints.load(fmt::format("{}/model.ckpt-{}", directory_ / "m", step));
    for (const auto& [name, tensor] : last.tensors) {
      if (!name.starts_with("net/")) continue;
      const Tensor weight = tensor.to(kFloat64);
      Tensor& average = averages[name];
      average = step == 0 ? weight : kDecay * average + (1 - kDecay) * weight;
    }
  }
  ASSERT_EQ(averages.size(), 4u);
  for (const auto& [name, average] : averages) {
    const Tensor& slot = last.tensors.at("Adam/average/" + name);
    EXPECT_TRUE(torch::allclose(slot.to(kFloat64), average, 1e-5, 1e-7)) << name;
    last.tensors[name] = slot;
  }
  Estimator expected = estimator("averages");
  CheckpointManager(directory_ / "averages").save(last);

  const EvalResult result = trained.evaluate(evaluated(), {.use_ema = true});
  EXPECT_EQ(result, expected.evaluate(evaluated()));
  EXPECT_NE(result.at("loss"), trained.evaluate(evaluated()).at("loss"));
  const Tensor logits = predicted(trained, {.use_ema = true});
  EXPECT_TRUE(logits.equal(predicted(expected, {})));
  EXPECT_FALSE(logits.equal(predicted(trained, {})));
  // Weights that were evaluated before do not stay.
  EXPECT_EQ(trained.evaluate(evaluated(), {.use_ema = true}), result);
}

TEST_F(AverageTest, AreEvaluatedWhileTheModelTrains) {
  Estimator trained = estimator("m", "average", 5);
  const auto during =
      train_and_evaluate(trained, {.input_fn = training_input(), .max_steps = 15},
                         {.input_fn = evaluated(), .steps = std::nullopt, .use_ema = true});
  EXPECT_EQ(*during, trained.evaluate(evaluated(), {.use_ema = true}));
  EXPECT_NE(*during, trained.evaluate(evaluated()));
  Estimator alone = estimator("alone", "average", 5);
  alone.train(training_input(), {.max_steps = 15});
  EXPECT_TRUE(same_bits(latest(directory_ / "m"), latest(directory_ / "alone")));
}

TEST_F(AverageTest, ACheckpointWithoutThemIsRefused) {
  Estimator trained = estimator("m", "slow");
  trained.train(training_input(), {.max_steps = 2});
  const Error error = error_of([&] { trained.evaluate(evaluated(), {.use_ema = true}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("/m/model.ckpt-2 holds no moving averages of weights"));
  EXPECT_THAT(error_of([&] { predicted(trained, {.use_ema = true}); }).message(),
              HasSubstr("holds no moving averages"));
  EXPECT_THAT(trained.get_variable_names(), ::testing::Contains("Adam/slow/net/dense/kernel"));
}

}  // namespace
}  // namespace muster::inline v0_1
