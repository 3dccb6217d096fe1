// Invariants of updates that take several batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <mutex>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
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

constexpr int64_t kBatch = 24;  // examples of an update

class Losses : public Hook {
 public:
  void after_step(const StepInfo& info) override {
    losses.push_back(info.loss);
    rows.push_back(info.rows);
    if (info.metrics && info.metrics->contains("mean_id"))
      metrics.push_back(info.metrics->at("mean_id"));
  }
  std::vector<double> losses, metrics;
  std::vector<int64_t> rows;
};

// two_layers, or with "sum" in params the sum of losses over examples; measures the ids it saw.
EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  EstimatorSpec spec = two_layers(features, labels, mode, context);
  if (mode != Mode::kTrain) return spec;
  spec.train_metrics = {{"mean_id", metrics::mean(features["id"].to(kFloat64))}};
  if (!context.params().contains("sum")) return spec;
  const Tensor loss = spec.loss * static_cast<double>(std::max<int64_t>(features.rows(), 1));
  const auto sgd = context.optimizer(optim::sgd({.learning_rate = 0.005}));
  spec.loss = loss;
  spec.train_op = sgd.minimize(loss);
  spec.loss_reduction = ReduceOp::kSum;
  return spec;
}

struct Trained {
  Checkpoint checkpoint;
  std::vector<double> losses, metrics;
  std::vector<int64_t> rows{};
  TrainResult result{};
};

Trained train(const std::string& model_dir, const distribute::StrategyPtr& strategy,
              int64_t accumulate_steps, const Dataset& data, const json& params,
              const Environment& environment = {}, std::optional<int64_t> max_steps = {}) {
  RunConfig config = quiet_config(model_dir, strategy, environment);
  config.accumulate_steps = accumulate_steps;
  config.log_step_count_steps = 1;
  const auto losses = std::make_shared<Losses>();
  Estimator estimator(model_fn, config, params);
  const TrainResult result =
      estimator.train([&] { return data.global_batch(kBatch / accumulate_steps); },
                      {.max_steps = max_steps, .hooks = {losses}});
  return {latest(model_dir), losses->losses, losses->metrics, losses->rows, result};
}

struct AccumulationLawCase {
  std::string optimizer{};  // or "sum"
  int64_t rows{};
  int64_t epochs{};
};

class AccumulationLawTest : public ::testing::TestWithParam<AccumulationLawCase> {};

TEST_P(AccumulationLawTest, SmallBatchesComputeWhatOneLargeBatchComputes) {
  const AccumulationLawCase law = GetParam();
  TempDirectory directory;
  const json params =
      law.optimizer == "sum" ? json{{"sum", true}} : json{{"optimizer", law.optimizer}};
  const Dataset data = examples(law.rows).shuffle(law.rows).repeat(law.epochs);
  const Trained one = train(directory / "one", distribute::one_device(), 1, data, params);
  ASSERT_GT(one.result.global_step, 2);
  const auto expect_same = [&](const Trained& many, const std::string& what) {
    EXPECT_EQ(many.result.global_step, one.result.global_step) << what;
    EXPECT_TRUE(many.result.end_of_input);
    EXPECT_EQ(many.rows, one.rows) << what;
    EXPECT_LT(largest_difference(many.checkpoint, one.checkpoint), 2e-5) << what;
    ASSERT_EQ(many.losses.size(), one.losses.size());
    for (size_t s = 0; s < one.losses.size(); ++s) {
      EXPECT_NEAR(many.losses[s], one.losses[s], 1e-5 * std::max(1.0, one.losses[s])) << what;
      EXPECT_NEAR(many.metrics.at(s), one.metrics.at(s), 1e-9) << what;
    }
  };
  for (int64_t k : {2, 4}) {
    for (int n : {1, 2, 3}) {
      const std::string what = fmt::format("{} replicas, {} batches an update", n, k);
      expect_same(train(directory / what, distribute::mirrored({.replicas = n}), k, data, params),
                  what);
    }
  }
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    const Trained many = train(directory / "workers", distribute::multi_worker_mirrored(), 4, data,
                               params, cluster.environment(rank));
    if (rank == 0) expect_same(many, "2 workers");
  });
  EXPECT_TRUE(same_bits(latest(directory / "workers"),
                        latest(directory / "2 replicas, 4 batches an update")));
}
// 96: only whole updates. 53 twice: the data ends in the middle of an update, within a batch. 25
// three times: it ends with three examples, so that replicas have none in the last update. 73: with
// one example.
INSTANTIATE_TEST_SUITE_P(
    Cases, AccumulationLawTest,
    ::testing::Values(AccumulationLawCase{"sgd", 96, 1}, AccumulationLawCase{"momentum", 53, 2},
                      AccumulationLawCase{"adam", 25, 3}, AccumulationLawCase{"clipped", 53, 2},
                      AccumulationLawCase{"sum", 53, 2}, AccumulationLawCase{"sgd", 73, 1}));

TEST(AccumulationTest, OneUpdateIsThatOfTheLargeBatchToRounding) {
  TempDirectory directory;
  const Dataset data = examples(kBatch);
  // The mean of n numbers of at most 1 is rounded by at most (n - 1) / 2 epsilons: two orders of
  // addition differ by less than n epsilons. The steps of these optimizers are shorter than 1.
  const double rounding = kBatch * std::numeric_limits<float>::epsilon();
  for (const char* optimizer : {"sgd", "momentum", "clipped"}) {
    const json params{{"optimizer", optimizer}};
    const std::string name = optimizer;
    train(directory / (name + "1"), distribute::one_device(), 1, data, params);
    for (int64_t k : {2, 3, 4, 24}) {
      const std::string model_dir = directory / (name + std::to_string(k));
      train(model_dir, distribute::one_device(), k, data, params);
      EXPECT_LT(largest_difference(latest(model_dir), latest(directory / (name + "1"))), rounding);
    }
  }
}

// A replica whose own input ends in the middle of an update waits for the others without data.
TEST(AccumulationTest, ReplicasRunOutAtDifferentPlaces) {
  TempDirectory directory;
  std::mutex mutex;
  std::multiset<int64_t> seen;
  const ModelFn recording = [&](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
    if (torch::GradMode::is_enabled()) {
      const std::lock_guard lock(mutex);
      for (int64_t i = 0; i < features["id"].size(0); ++i)
        seen.insert(features["id"][i].item<int64_t>());
    }
    return two_layers(features, labels, mode, context);
  };
  // Worker 0 has 5 batches, worker 1 has 1: updates of three batches each.
  const InputFn input = [](const InputContext& context) {
    const Dataset all = examples(30);
    return (context.input_pipeline_id == 0 ? all.take(25) : all.skip(25)).batch(5);
  };
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    RunConfig config = quiet_config(directory / "m", distribute::multi_worker_mirrored(),
                                    cluster.environment(rank));
    config.accumulate_steps = 3;
    const TrainResult result = Estimator(recording, config).train(input);
    EXPECT_EQ(result.global_step, 2);
    EXPECT_TRUE(result.end_of_input);
  });
  EXPECT_EQ(seen.size(), 30u);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 30u);
}

TEST(AccumulationTest, ResumeIsBitForBit) {
  const json params{{"optimizer", "adam"}, {"dropout", 0.2}};
  const Dataset data = examples(50).shuffle(50).repeat().prefetch();
  for (int n : {1, 2}) {
    TempDirectory directory;
    const auto strategy = distribute::mirrored({.replicas = n});
    train(directory / "whole", strategy, 3, data, params, {}, 23);
    train(directory / "parts", strategy, 3, data, params, {}, 7);
    train(directory / "parts", strategy, 3, data, params, {}, 23);
    EXPECT_TRUE(same_bits(latest(directory / "parts"), latest(directory / "whole")));
    EXPECT_EQ(latest(directory / "parts").inputs, latest(directory / "whole").inputs);
  }
}

// The random numbers of layers differ from batch to batch of an update.
TEST(AccumulationTest, EveryBatchDrawsItsOwn) {
  std::vector<Tensor> masks;
  const ModelFn drawing = [&](const Features& features, const Labels& labels, Mode mode,
                              ModelContext& context) {
    const Tensor ones = torch::ones({1, 64});
    if (torch::GradMode::is_enabled()) {
      masks.push_back(context.model("drop", [] { return Dropout(0.5); })(ones));
      masks.push_back(
          torch::full({1}, static_cast<int64_t>(context.random_key("mine").key), kInt64));
    } else {
      context.model("drop", [] { return Dropout(0.5); })(ones);
    }
    return two_layers(features, labels, mode, context);
  };
  TempDirectory directory;
  RunConfig config = quiet_config(directory / "m");
  config.accumulate_steps = 2;
  Estimator(drawing, config).train([] { return examples(8).batch(2); });
  ASSERT_EQ(masks.size(), 8u);
  for (size_t a = 0; a < masks.size(); ++a) {
    for (size_t b = a + 2; b < masks.size(); b += 2) EXPECT_FALSE(masks[a].equal(masks[b]));
  }
}

TEST(AccumulationTest, ALossThatIsNoNumberIsToldWithItsBatch) {
  TempDirectory directory;
  const Dataset data = examples(24).map([](const Element& element) {
    const Features features(element.part(0));
    Tensor x = features["x"].clone();
    if (features["id"].item<int64_t>() == 9) x.fill_(std::nan(""));
    return Element::tuple({Element::dict({{"x", x}, {"id", features["id"]}}), element.part(1)});
  });
  for (int n : {1, 2}) {
    RunConfig config =
        quiet_config(directory / std::to_string(n), distribute::mirrored({.replicas = n}));
    config.accumulate_steps = 3;
    Estimator estimator(two_layers, config);
    const Error error = error_of([&] { estimator.train([&] { return data.global_batch(8); }); });
    EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
    EXPECT_THAT(error.message(), HasSubstr("at step 1: the batch's feature \"x\" holds nan"));
  }
}

TEST(AccumulationTest, WorkersAgreeOnHowManyBatchesMakeAnUpdate) {
  TempDirectory directory;
  const LocalCluster cluster(2);
  const Error error = error_of([&] {
    testing::run_ranks(2, [&](int rank) {
      train(directory / "m", distribute::multi_worker_mirrored(), rank == 0 ? 2 : 3, examples(50),
            json::object(), cluster.environment(rank));
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("accumulate_steps is 2 on worker 0; 3 on worker 1"));
  const Error zero = error_of(
      [&] { train(directory / "z", distribute::one_device(), 0, examples(50), json::object()); });
  EXPECT_THAT(zero.message(), HasSubstr("RunConfig.accumulate_steps is 0"));
}

// --- loops written by hand ---

struct Looped {
  Tensor kernel{};
  std::vector<double> losses{};
  int64_t steps = 0;
};

Looped by_hand(const distribute::StrategyPtr& strategy, int64_t accumulate_steps, int64_t rows,
               const Environment& environment = {}) {
  const auto scope = strategy->scope(
      {.seed = 3, .accumulate_steps = accumulate_steps, .environment = environment});
  const Layer model = Dense(2);
  const auto adam = optim::adam({.learning_rate = 0.1});
  Looped looped;
  const auto note = [&] {
    if (scope.step() == looped.steps) return;
    looped.steps = scope.step();
    looped.losses.push_back(scope.last_step().loss);
  };
  for (const auto& batch : strategy->distribute(
           examples(rows).shuffle(rows).repeat(2).batch(kBatch / accumulate_steps))) {
    strategy->run(
        [&](const Features& features, const Labels& labels) {
          adam.minimize(losses::sparse_categorical_crossentropy(labels, model(features["x"]),
                                                                {.from_logits = true}));
        },
        batch);
    note();
  }
  scope.apply_accumulated();
  note();
  scope.apply_accumulated();  // nothing waits any more
  looped.kernel = scope.variable("dense/kernel");
  return looped;
}

TEST(AccumulationTest, LoopsWrittenByHandComputeTheSame) {
  for (int64_t rows : {48, 53, 37}) {
    const Looped one = by_hand(distribute::one_device(), 1, rows);
    const auto expect_same = [&](const Looped& many) {
      EXPECT_EQ(many.steps, one.steps);
      ASSERT_EQ(many.losses.size(), one.losses.size());
      for (size_t s = 0; s < one.losses.size(); ++s)
        EXPECT_NEAR(many.losses[s], one.losses[s], 1e-5);
      EXPECT_TRUE(torch::allclose(many.kernel, one.kernel, 1e-4, 1e-5));
    };
    for (int n : {1, 2, 3}) expect_same(by_hand(distribute::mirrored({.replicas = n}), 4, rows));
    const LocalCluster cluster(2);
    testing::run_ranks(2, [&](int rank) {
      expect_same(by_hand(distribute::multi_worker_mirrored(), 4, rows, cluster.environment(rank)));
    });
  }
}

}  // namespace
}  // namespace muster::inline v0_1
