// A run that begins with the weights of another one: none of them shows in a run that continues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/layers/batch_normalization.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/optim/exponential_moving_average.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;
using testing::latest;
using testing::quiet_config;
using testing::same_bits;
using testing::shuffled_batches;
using testing::two_layers;

const nlohmann::json kAdam{{"optimizer", "adam"}};

class WarmStartedTest : public ::testing::Test {
 protected:
  WarmStartedTest() {
    RunConfig config = quiet_config(base());
    config.random_seed = 5;
    Estimator(two_layers, config, kAdam).train(shuffled_batches(64, 8), {.max_steps = 20});
  }

  std::string base() const { return directory_ / "base"; }
  std::string path(const std::string& name) const { return directory_ / name; }
  RunConfig config(const std::string& name) const {
    RunConfig config = quiet_config(directory_ / name);
    config.warm_start_from = base();
    return config;
  }
  Checkpoint first(const std::string& name) const {
    return CheckpointManager(directory_ / name).load(directory_ / name + "/model.ckpt-0");
  }

  TempDirectory directory_;
  const InputFn input_ = shuffled_batches(48, 8);
};

// Weights are taken; slots, step and input are not.
TEST_F(WarmStartedTest, ARunBeginsWithTheWeightsAlone) {
  Estimator estimator(two_layers, config("m"), kAdam);
  EXPECT_EQ(estimator.train(input_, {.max_steps = 3}).steps, 3);
  const Checkpoint begun = first("m"), taken = latest(base());
  EXPECT_TRUE(begun.tensors.at("net/dense/kernel").equal(taken.tensors.at("net/dense/kernel")));
  EXPECT_TRUE(begun.tensors.at("net/dense_1/bias").equal(taken.tensors.at("net/dense_1/bias")));
  for (const auto& [name, tensor] : begun.tensors) {
    if (!name.starts_with("Adam/")) continue;
    EXPECT_EQ(tensor.ne(0).sum().item<int64_t>(), 0) << name;
  }
}

// A continued run may still have the settings, and the checkpoint they name may be gone.
TEST_F(WarmStartedTest, ARunThatContinuesTakesNothing) {
  Estimator(two_layers, quiet_config(path("cold")), kAdam).train(input_, {.max_steps = 20});
  Estimator(two_layers, quiet_config(path("twice")), kAdam).train(input_, {.max_steps = 10});
  RunConfig again = config("twice");
  again.warm_start_from = path("gone");
  Estimator(two_layers, again, kAdam).train(input_, {.max_steps = 20});
  EXPECT_TRUE(same_bits(latest(path("twice")), latest(path("cold"))));
}

// The chief reads; the others get its values.
TEST_F(WarmStartedTest, AnyNumberOfReplicasBeginsWithTheSameBits) {
  const InputFn input = [] { return testing::examples(60).repeat().global_batch(12); };
  const auto begin = [&](int n) {
    RunConfig replicated = config(std::to_string(n));
    if (n > 1) replicated.train_distribute = distribute::mirrored({.replicas = n});
    Estimator(two_layers, replicated, kAdam).train(input, {.max_steps = 10});
    return first(std::to_string(n));
  };
  const Checkpoint one = begin(1);
  for (const int n : {2, 3}) {
    EXPECT_TRUE(same_bits(begin(n), one)) << n;
    EXPECT_LT(testing::largest_difference(latest(path(std::to_string(n))), latest(path("1"))),
              1e-5);
  }
}

struct Failing : Hook {
  explicit Failing(int64_t step) : step(step) {}
  void begin(const RunInfo&) override { fail_at(0); }
  void after_step(const StepInfo& info) override { fail_at(info.global_step); }
  void fail_at(int64_t now) const {
    if (now == step) throw std::runtime_error("killed");
  }
  const int64_t step;
};

// Before anything is saved, and between two saves.
TEST_F(WarmStartedTest, ARunThatFailsAndContinuesHasTheSameBits) {
  Estimator(two_layers, config("whole"), kAdam).train(input_, {.max_steps = 25});
  for (const int64_t step : {0, 1, 13}) {
    const std::string name = "failed_" + std::to_string(step);
    EXPECT_THROW(Estimator(two_layers, config(name), kAdam)
                     .train(input_, {.max_steps = 25, .hooks = {std::make_shared<Failing>(step)}}),
                 std::exception);
    Estimator(two_layers, config(name), kAdam).train(input_, {.max_steps = 25});
    EXPECT_TRUE(same_bits(latest(path(name)), latest(path("whole")))) << step;
  }
}

TEST_F(WarmStartedTest, EvaluationAndPredictionWithoutACheckpointUseTheWeights) {
  const InputFn once = shuffled_batches(48, 8, 1);
  const EvalResult expected = Estimator(two_layers, quiet_config(base()), kAdam).evaluate(once);
  Estimator warm(two_layers, config("none"), kAdam);
  for (int i = 0; i < 2; ++i) {
    EvalResult result = warm.evaluate(once);
    EXPECT_EQ(result.at("loss"), expected.at("loss"));
    EXPECT_EQ(result.at("global_step"), 0);
  }
  std::optional<Prediction> given;
  std::optional<Prediction> taken;
  ASSERT_TRUE(taken = warm.predict(once).next());
  ASSERT_TRUE(given = Estimator(two_layers, quiet_config(base()), kAdam).predict(once).next());
  EXPECT_TRUE(taken->at("logits").equal(given->at("logits")));
  // Its own checkpoint, once there is one.
  warm.train(input_, {.max_steps = 4});
  EXPECT_EQ(warm.evaluate(once).at("global_step"), 4);
}

// A moving average begins as the weights, which are those taken.
EstimatorSpec averaged(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  EstimatorSpec spec = two_layers(features, labels, Mode::kEval, context);
  if (mode == Mode::kEval) return spec;
  const auto optimizer = optim::exponential_moving_average(optim::sgd({.learning_rate = 0.1}));
  return EstimatorSpec::train(spec.loss, context.optimizer(optimizer).minimize(spec.loss));
}

TEST_F(WarmStartedTest, MovingAveragesBeginAsTheWeightsThatWereTaken) {
  Estimator(averaged, config("m")).train(input_, {.max_steps = 1});
  const Checkpoint begun = first("m");
  bool seen = false;
  for (const auto& [name, tensor] : begun.tensors) {
    if (!name.ends_with("/average/net/dense/kernel")) continue;
    seen = true;
    EXPECT_TRUE(tensor.equal(latest(base()).tensors.at("net/dense/kernel")));
  }
  EXPECT_TRUE(seen);
}

EstimatorSpec with_batch_normalization(const Features& features, const Labels& labels, Mode mode,
                                       ModelContext& context) {
  auto model = context.model("net", [] { return Sequential({BatchNormalization(), Dense(2)}); });
  const Tensor loss = testing::loss_of(model(features["x"]), labels);
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss, {});
  return EstimatorSpec::train(loss,
                              context.optimizer(testing::make_optimizer("sgd")).minimize(loss));
}

// The build writes into them, and restores them: the warm-started values stay.
TEST_F(WarmStartedTest, StatisticsAreTakenWhereAListChoosesThem) {
  const std::string mean = "net/batch_normalization/moving_mean";
  Estimator(with_batch_normalization, quiet_config(path("base_bn")))
      .train(input_, {.max_steps = 10});
  const Tensor learned = latest(path("base_bn")).tensors.at(mean);
  ASSERT_GT(learned.abs().max().item<double>(), 0);
  RunConfig all = config("all");
  all.warm_start_from =
      WarmStartSettings{.ckpt_to_initialize_from = path("base_bn"), .vars_to_warm_start = {".*"}};
  Estimator(with_batch_normalization, all).train(input_, {.max_steps = 1});
  EXPECT_TRUE(first("all").tensors.at(mean).equal(learned));
  RunConfig plain = config("plain");
  plain.warm_start_from = path("base_bn");
  Estimator(with_batch_normalization, plain).train(input_, {.max_steps = 1});
  EXPECT_EQ(first("plain").tensors.at(mean).abs().max().item<double>(), 0);
}

TEST_F(WarmStartedTest, MistakesAreReported) {
  RunConfig empty = config("m");
  empty.warm_start_from = "";
  EXPECT_THAT(error_of([&] { Estimator(two_layers, empty); }).message(),
              HasSubstr("ckpt_to_initialize_from is empty"));
  EXPECT_THAT(error_of([&] {
                Estimator(with_batch_normalization, config("m")).train(input_, {.max_steps = 1});
              }).message(),
              HasSubstr("net/dense/kernel float32[10, 2]: the checkpoint holds "
                        "\"net/dense/kernel\" as float32[10, 16]; it holds nothing of that shape"));
  EXPECT_FALSE(CheckpointManager(path("m")).latest());
}

// A loop by hand, which calls its layer otherwise. `save`: the run continues later.
Tensor begun(const distribute::StrategyPtr& strategy, const std::string& model_dir,
             const WarmStartSettings& from, bool save) {
  const auto scope = strategy->scope();
  scope.restore(model_dir);
  scope.warm_start(from);
  EXPECT_THAT(message_of([&] { scope.warm_start(from); }), HasSubstr("and before with"));
  const Layer model = Dense(16);
  // The steps are too small to change a weight, so that the initial values are visible.
  const auto sgd = optim::sgd({.learning_rate = 1e-30});
  for (const auto& batch : strategy->distribute(testing::examples(4).batch(4))) {
    strategy->run([&](const Features& x, const Labels&) { sgd.minimize(model(x["x"]).sum()); },
                  batch);
  }
  EXPECT_THAT(message_of([&] { scope.warm_start(from); }), HasSubstr("was called after 1 step"));
  if (save) scope.save(model_dir);
  return scope.variable("dense/kernel").clone();
}

TEST_F(WarmStartedTest, ALoopBeginsWithTheWeightsAndContinuesWithItsOwn) {
  const Tensor learned = latest(base()).tensors.at("net/dense/kernel");
  WarmStartSettings from{.ckpt_to_initialize_from = base(),
                         .vars_to_warm_start = "dense/kernel",
                         .var_name_to_prev_var_name = {{"dense/kernel", "net/dense/kernel"}}};
  EXPECT_TRUE(
      begun(distribute::mirrored({.replicas = 2}), path("loop"), from, false).equal(learned));
  EXPECT_TRUE(begun(distribute::one_device(), path("loop"), from, true).equal(learned));
  from.ckpt_to_initialize_from = path("gone");
  const auto strategy = distribute::one_device();
  const auto scope = strategy->scope();
  ASSERT_TRUE(scope.restore(path("loop")));
  scope.warm_start(from);
  const Layer model = Dense(16);
  Tensor seen;
  for (const auto& batch : strategy->distribute(testing::examples(4).batch(4)))
    strategy->run([&](const Features& x, const Labels&) { seen = model(x["x"]); }, batch);
  EXPECT_TRUE(scope.variable("dense/kernel").equal(learned));
}

}  // namespace
}  // namespace muster::inline v0_1
