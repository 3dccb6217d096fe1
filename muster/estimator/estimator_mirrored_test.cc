// Invariants of training on several replicas in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"
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

Estimator on_replicas(int replicas, const std::string& model_dir, const ModelFn& model_fn,
                      const json& params = json::object()) {
  return Estimator(model_fn, quiet_config(model_dir, distribute::mirrored({.replicas = replicas})),
                   params);
}

struct MirroredCase {
  std::string optimizer{};
  int64_t rows{};  // 53: a ragged last batch; 25, 1: replicas without data in the last step
  int64_t epochs{};
};

class MirroredLawTest : public ::testing::TestWithParam<MirroredCase> {};

TEST_P(MirroredLawTest, ReplicasComputeWhatOneComputesAndWhatWorkersCompute) {
  const MirroredCase law = GetParam();
  TempDirectory directory;
  const json params{{"optimizer", law.optimizer}};
  const InputFn input = [&] {
    return examples(law.rows).shuffle(law.rows).repeat(law.epochs).global_batch(12);
  };
  for (int n : {1, 2, 3}) {
    on_replicas(n, directory / std::to_string(n), two_layers, params)
        .train(input, {.max_steps = 20});
  }
  const Checkpoint one = latest(directory / "1");
  for (int n : {2, 3}) {
    const Checkpoint many = latest(directory / std::to_string(n));
    EXPECT_EQ(many.global_step, one.global_step);
    EXPECT_LT(largest_difference(many, one), 1e-5) << n << " replicas";
  }
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    Estimator estimator(two_layers,
                        quiet_config(directory / "workers", distribute::multi_worker_mirrored(),
                                     cluster.environment(rank)),
                        params);
    estimator.train(input, {.max_steps = 20});
  });
  EXPECT_TRUE(same_bits(latest(directory / "workers"), latest(directory / "2")));
}
INSTANTIATE_TEST_SUITE_P(Cases, MirroredLawTest,
                         ::testing::Values(MirroredCase{"sgd", 60, -1},
                                           MirroredCase{"momentum", 53, 2},
                                           MirroredCase{"adam", 25, 3},
                                           MirroredCase{"clipped", 53, 2},
                                           MirroredCase{"sgd", 1, 3}));

TEST(MirroredTest, GradientsOfSixteenBitsTrainToTheirRounding) {
  TempDirectory directory;
  const InputFn input = [] { return examples(53).shuffle(53).repeat(2).global_batch(12); };
  const auto train = [&](const std::string& model_dir, const distribute::StrategyPtr& strategy,
                         const Environment& environment = {}) {
    Estimator(two_layers, quiet_config(model_dir, strategy, environment)).train(input);
  };
  train(directory / "32", distribute::mirrored({.replicas = 2}));
  train(directory / "16", distribute::mirrored({.replicas = 2, .wire_dtype = kBFloat16}));
  const double difference = largest_difference(latest(directory / "16"), latest(directory / "32"));
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 0.01);
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    train(directory / "workers", distribute::multi_worker_mirrored({.wire_dtype = kBFloat16}),
          cluster.environment(rank));
  });
  EXPECT_TRUE(same_bits(latest(directory / "workers"), latest(directory / "16")));
}

TEST(MirroredTest, ResumeIsBitForBit) {
  TempDirectory directory;
  const json params{{"optimizer", "adam"}, {"dropout", 0.2}};
  const InputFn input = [] {
    return examples(50).shuffle(50).repeat().global_batch(14).prefetch();
  };
  on_replicas(2, directory / "whole", two_layers, params).train(input, {.max_steps = 23});
  on_replicas(2, directory / "parts", two_layers, params).train(input, {.max_steps = 7});
  on_replicas(2, directory / "parts", two_layers, params).train(input, {.max_steps = 23});
  EXPECT_TRUE(same_bits(latest(directory / "parts"), latest(directory / "whole")));
}

TEST(MirroredTest, AnInputFunctionIsCalledOnceForTheProcess) {
  TempDirectory directory;
  std::mutex mutex;
  std::vector<InputContext> contexts;
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
  const InputFn input = [&](const InputContext& context) {
    contexts.push_back(context);
    return examples(28)
        .shard(context.num_input_pipelines, context.input_pipeline_id)
        .batch(context.per_replica_batch_size(10));
  };
  const auto train = [&](int replicas, int64_t end) {
    return on_replicas(replicas, directory / "m", recording).train(input, {.max_steps = end});
  };
  train(2, 1);
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_EQ(contexts[0].num_input_pipelines, 1);
  EXPECT_EQ(contexts[0].input_pipeline_id, 0);
  EXPECT_EQ(contexts[0].num_replicas_in_sync, 2);
  EXPECT_EQ(seen.size(), 10u);
  // Its position is the process's, whatever replicas read it.
  EXPECT_TRUE(train(1, 100).end_of_input);
  EXPECT_EQ(seen.size(), 28u);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 28u);
}

TEST(MirroredTest, OneReplicaSpeaksForTheProcess) {
  class Count : public Hook {
   public:
    void begin(const RunInfo& info) override {
      ++begun;
      EXPECT_EQ(info.num_replicas, 3);
      EXPECT_EQ(info.last_step, 5);
    }
    void after_step(const StepInfo& info) override {
      ++steps;
      EXPECT_EQ(info.rows, 12);
      if (info.global_step == 4) info.control.request_stop();
    }
    int begun = 0, steps = 0;
  };
  TempDirectory directory;
  const auto hook = std::make_shared<Count>();
  const TrainResult result =
      on_replicas(3, directory / "m", two_layers)
          .train([] { return examples(60).global_batch(12); }, {.hooks = {hook}});
  EXPECT_EQ(hook->begun, 1);
  // All agree on a hook's request with their next step.
  EXPECT_EQ(hook->steps, 5);
  EXPECT_EQ(result.global_step, 5);
}

TEST(MirroredTest, TheFirstReplicaEvaluatesAndTheOthersWait) {
  TempDirectory directory;
  Estimator estimator = on_replicas(2, directory / "m", two_layers, {{"optimizer", "adam"}});
  const auto result = train_and_evaluate(
      estimator,
      {.input_fn = [] { return examples(60).shuffle(60).repeat().global_batch(12); },
       .max_steps = 25},
      {.input_fn = [] { return examples(20).batch(10); }, .steps = std::nullopt});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->at("global_step"), 25);
}

TEST(MirroredTest, AnErrorOfOneReplicaIsThrown) {
  struct Mine : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  for (int64_t broken : {0, 1, 2}) {
    for (int64_t at : {0, 1}) {
      TempDirectory directory;
      std::mutex mutex;
      std::map<int64_t, int64_t> calls;  // with gradients, by the first id of the batch's replica
      const ModelFn model = [&](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
        // The batch identifies the replica: each gets 4 of 12 in order.
        const int64_t replica = features["id"][0].item<int64_t>() % 12 / 4;
        if (replica == broken && context.global_step() == at && torch::GradMode::is_enabled())
          throw Mine("mine");
        return two_layers(features, labels, mode, context);
      };
      EXPECT_THROW(on_replicas(3, directory / "m", model)
                       .train([] { return examples(60).global_batch(12); }, {.max_steps = 5}),
                   Mine);
    }
  }
}

TEST(MirroredTest, ANonFiniteLossNamesItsBatch) {
  TempDirectory directory;
  const ModelFn poisoned = [](const Features& features, const Labels& labels, Mode mode,
                              ModelContext& context) {
    if (features["id"][0].item<int64_t>() == 18) features["x"][0][0] = std::nan("");
    return two_layers(features, labels, mode, context);
  };
  const Error error = error_of([&] {
    on_replicas(2, directory / "m", poisoned)
        .train([] { return examples(60).global_batch(12); }, {.max_steps = 5});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_THAT(error.what(), HasSubstr("at step 2: the batch's feature \"x\" holds nan in row 0"));
}

TEST(MirroredTest, DifferentModelsAreNamed) {
  TempDirectory directory;
  std::atomic<int> width{2};
  const ModelFn wider = [&](const Features& features, const Labels& labels, Mode,
                            ModelContext& context) {
    Tensor logits = context.model("net", [&] { return Dense(width++); })(features["x"]);
    Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
    return EstimatorSpec::train(loss, context.optimizer(optim::sgd()).minimize(loss));
  };
  const Error error = error_of([&] {
    on_replicas(2, directory / "m", wider)
        .train([] { return examples(12).global_batch(6); }, {.max_steps = 2});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("replica 1 built another model than replica 0"));
  EXPECT_THAT(error.what(), HasSubstr("net/dense/kernel"));
}

TEST(MirroredTest, OptionsAreChecked) {
  EXPECT_THAT(error_of([] { distribute::mirrored({.replicas = 0}); }).message(),
              HasSubstr("MirroredOptions.replicas is 0"));
  EXPECT_THAT(error_of([] { distribute::mirrored({.bytes_per_pack = -1}); }).message(),
              HasSubstr("MirroredOptions.bytes_per_pack is -1"));
  EXPECT_THAT(error_of([] { distribute::mirrored({.save_timeout = Seconds(0)}); }).message(),
              HasSubstr("MirroredOptions.save_timeout is 0 s"));
  EXPECT_THAT(error_of([] { distribute::mirrored({.replicas = 2})->start({}); }).message(),
              HasSubstr("Mirrored has 2 replicas in this process"));
  TempDirectory directory;
  const LocalCluster cluster(2, /*chief=*/true);
  Estimator estimator(
      two_layers,
      quiet_config(directory / "m", distribute::mirrored({.replicas = 2}), cluster.environment(0)));
  EXPECT_THAT(error_of([&] { estimator.train([] { return examples(12).batch(3); }); }).message(),
              HasSubstr("TF_CONFIG describes 2 workers, but the strategy Mirrored"));
}

}  // namespace
}  // namespace muster::inline v0_1
