// Invariants of evaluation on several replicas: the numbers equal those of one, to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/formats/event.h"
#include "tests/support/local_cluster.h"
#include "tests/support/process_tasks.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using namespace std::chrono_literals;
using testing::examples;
using ::testing::HasSubstr;
using testing::LocalCluster;
using testing::quiet_config;
using testing::run_ranks;
using testing::two_layers;

// Everything there is to measure, and something that is drawn.
EstimatorSpec measured(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  EstimatorSpec spec = two_layers(features, labels, mode, context);
  if (mode != Mode::kEval) return spec;
  const Tensor& x = features["x"];
  const Tensor sums = x.sum(-1) / 3;
  Random random(context.random_key("noise"));
  spec.eval_metrics.emplace("mean", metrics::mean(sums));
  spec.eval_metrics.emplace("weighted", metrics::mean(sums, x.select(1, 0).abs()));
  spec.eval_metrics.emplace("drawn", metrics::mean(sums * random.uniform()));
  spec.eval_metrics.emplace("weighted_accuracy",
                            metrics::accuracy(labels, (sums > 0).to(kInt64), x.select(1, 1).abs()));
  return spec;
}

RunConfig config_of(const std::string& model_dir, distribute::StrategyPtr train,
                    distribute::StrategyPtr eval, const Environment& environment = {}) {
  RunConfig config = quiet_config(model_dir, std::move(train), environment);
  config.eval_distribute = std::move(eval);
  return config;
}

EvalResult evaluate(const std::string& model_dir, const distribute::StrategyPtr& strategy,
                    const InputFn& input, const EvaluateOptions& options = {}) {
  return Estimator(measured, config_of(model_dir, nullptr, strategy)).evaluate(input, options);
}

void train(const std::string& model_dir, int64_t steps = 10) {
  Estimator(measured, quiet_config(model_dir))
      .train([] { return examples(60).repeat().batch(12); }, {.max_steps = steps});
}

struct LawCase {
  int64_t rows{};  // in batches of 10
  std::optional<int64_t> steps{};
};

class EvaluationLawTest : public ::testing::TestWithParam<LawCase> {};

TEST_P(EvaluationLawTest, ReplicasAndWorkersMeasureWhatOneMeasures) {
  const auto [rows, steps] = GetParam();
  TempDirectory directory;
  train(directory / "m");
  const InputFn input = [rows = rows] { return examples(rows).shuffle(rows).batch(10).prefetch(); };
  const EvaluateOptions options{.steps = steps};
  const EvalResult one = evaluate(directory / "m", distribute::one_device(), input, options);
  EXPECT_EQ(one.size(), 7u);
  for (int replicas : {2, 3, 5}) {
    EXPECT_EQ(
        evaluate(directory / "m", distribute::mirrored({.replicas = replicas}), input, options),
        one)
        << replicas << " replicas";
  }
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    Estimator estimator(measured,
                        config_of(directory / "m", nullptr, distribute::multi_worker_mirrored(),
                                  cluster.environment(rank)));
    // As often as one likes; every evaluation is a group of its own.
    for (int time = 0; time < 2; ++time) {
      EXPECT_EQ(estimator.evaluate(input, options), one) << "worker " << rank;
    }
  });
}
// Full batches; a ragged last one; fewer batches than replicas; a limit, also below the number of
// replicas.
INSTANTIATE_TEST_SUITE_P(Cases, EvaluationLawTest,
                         ::testing::Values(LawCase{60, {}}, LawCase{53, {}}, LawCase{17, {}},
                                           LawCase{1, {}}, LawCase{60, 5}, LawCase{60, 1}));

TEST(DistributedEvaluationTest, WorkersThatTrainEvaluateTogether) {
  TempDirectory directory;
  const InputFn training = [] { return examples(60).shuffle(60).repeat().global_batch(12); };
  const InputFn test = [] { return examples(47).batch(10); };
  const LocalCluster cluster(2);
  std::mutex mutex;
  std::map<int, std::set<int64_t>> seen;  // by worker: first ids of the batches of evaluations
  std::optional<EvalResult> result;
  run_ranks(2, [&](int rank) {
    const ModelFn recording = [&](const Features& features, const Labels& labels, Mode mode,
                                  ModelContext& context) {
      if (mode == Mode::kEval) {
        const std::lock_guard lock(mutex);
        seen[rank].insert(features["id"][0].item<int64_t>());
      }
      return measured(features, labels, mode, context);
    };
    Estimator estimator(recording,
                        config_of(directory / "m", distribute::multi_worker_mirrored(),
                                  distribute::multi_worker_mirrored(), cluster.environment(rank)));
    const auto mine = train_and_evaluate(estimator, {.input_fn = training, .max_steps = 25},
                                         {.input_fn = test, .steps = std::nullopt});
    EXPECT_EQ(mine.has_value(), rank == 0);
    if (mine) result = mine;
  });
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, evaluate(directory / "m", nullptr, test));
  EXPECT_EQ(seen[0], (std::set<int64_t>{0, 20, 40}));
  EXPECT_EQ(seen[1], (std::set<int64_t>{10, 30}));
  // One of them speaks: an evaluation at each of the steps 10, 20 and 25, and the one above.
  std::vector<int64_t> steps;
  for (const auto& file :
       formats::list_event_files(local_file_system(), directory / "m/eval").value()) {
    for (const auto& event : formats::read_events(local_file_system(), file).value().events) {
      for (const auto& value : event.values) {
        if (value.tag == "loss") steps.push_back(event.step);
      }
    }
  }
  EXPECT_THAT(steps, ::testing::UnorderedElementsAre(10, 20, 25, 25));
}

TEST(DistributedEvaluationTest, ATrainedRunIsTheSameHoweverItIsEvaluated) {
  TempDirectory directory;
  const InputFn training = [] { return examples(60).shuffle(60).repeat().global_batch(12); };
  const InputFn test = [] { return examples(47).batch(10); };
  std::map<std::string, EvalResult> results;
  for (const auto& [name, eval] : {std::pair("alone", distribute::StrategyPtr()),
                                   std::pair("together", distribute::mirrored({.replicas = 3}))}) {
    Estimator estimator(measured,
                        config_of(directory / name, distribute::mirrored({.replicas = 2}), eval));
    results[name] = *train_and_evaluate(estimator, {.input_fn = training, .max_steps = 25},
                                        {.input_fn = test, .steps = std::nullopt});
  }
  EXPECT_EQ(results["alone"], results["together"]);
  EXPECT_TRUE(testing::same_bits(testing::latest(directory / "alone"),
                                 testing::latest(directory / "together")));
}

TEST(DistributedEvaluationTest, NothingToTrainIsStillEvaluatedByAll) {
  TempDirectory directory;
  train(directory / "m");
  const InputFn test = [] { return examples(47).batch(10); };
  const LocalCluster cluster(2);
  std::atomic<int> evaluated{0};
  run_ranks(2, [&](int rank) {
    Estimator estimator(measured,
                        config_of(directory / "m", distribute::multi_worker_mirrored(),
                                  distribute::multi_worker_mirrored(), cluster.environment(rank)));
    const auto result =
        train_and_evaluate(estimator, {.input_fn = test, .max_steps = 5}, {.input_fn = test});
    if (!result) return;
    EXPECT_EQ(*result, evaluate(directory / "m", nullptr, test));
    ++evaluated;
  });
  EXPECT_EQ(evaluated, 1);
}

TEST(DistributedEvaluationTest, AnInputFunctionIsCalledOnceAndDescribesAllData) {
  TempDirectory directory;
  std::vector<InputContext> contexts;
  const InputFn input = [&](const InputContext& context) {
    contexts.push_back(context);
    return examples(40)
        .shard(context.num_input_pipelines, context.input_pipeline_id)
        .batch(context.per_replica_batch_size(10));
  };
  const EvaluateOptions untrained{.allow_untrained = true};
  const EvalResult one = evaluate(directory / "m", nullptr, input, untrained);
  EXPECT_EQ(evaluate(directory / "n", distribute::mirrored({.replicas = 3}), input, untrained),
            one);
  ASSERT_EQ(contexts.size(), 2u);
  EXPECT_EQ(contexts[1].num_input_pipelines, 1);
  EXPECT_EQ(contexts[1].num_replicas_in_sync, 1);
}

TEST(DistributedEvaluationTest, NoDataIsToldToAll) {
  TempDirectory directory;
  const InputFn nothing = [] { return examples(20).take(0).batch(10); };
  const EvaluateOptions untrained{.allow_untrained = true};
  const std::string said =
      error_of([&] { evaluate(directory / "m", nullptr, nothing, untrained); }).message();
  EXPECT_THAT(said, HasSubstr("the evaluation input gave no data"));
  EXPECT_EQ(error_of([&] {
              evaluate(directory / "m", distribute::mirrored({.replicas = 2}), nothing, untrained);
            }).message(),
            said);
  const LocalCluster cluster(2);
  std::atomic<int> told{0};
  run_ranks(2, [&](int rank) {
    Estimator estimator(measured,
                        config_of(directory / "m", nullptr, distribute::multi_worker_mirrored(),
                                  cluster.environment(rank)));
    const Error error = error_of([&] { estimator.evaluate(nothing, untrained); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr(said));
    ++told;
  });
  EXPECT_EQ(told, 2);
}

// A worker with a part of the files, say.
TEST(DistributedEvaluationTest, DataThatDiffersBetweenWorkersIsToldToAll) {
  TempDirectory directory;
  train(directory / "m");
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    const auto strategy = distribute::multi_worker_mirrored();
    Estimator estimator(measured,
                        config_of(directory / "m", strategy, strategy, cluster.environment(rank)));
    const Error error = error_of(
        [&] { estimator.evaluate([&] { return examples(rank == 0 ? 25 : 50).batch(5); }); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_THAT(error.message(), HasSubstr("replica 0 of 2 evaluated 3 batches"));
    EXPECT_THAT(error.hint(), HasSubstr("the same data in every process"));
  });
}

TEST(DistributedEvaluationTest, MetricsThatDifferAreNamed) {
  TempDirectory directory;
  const ModelFn fickle = [](const Features& features, const Labels& labels, Mode mode,
                            ModelContext& context) {
    EstimatorSpec spec = two_layers(features, labels, mode, context);
    const bool odd = features["id"][0].item<int64_t>() % 20 != 0;
    spec.eval_metrics.emplace(
        "x", odd ? metrics::mean(features["x"]) : metrics::accuracy(labels, labels));
    return spec;
  };
  for (const auto& strategy : {distribute::one_device(), distribute::mirrored({.replicas = 2})}) {
    Estimator estimator(fickle, config_of(directory / "m", nullptr, strategy));
    EXPECT_THAT(error_of([&] {
                  estimator.evaluate([] { return examples(40).batch(10); },
                                     {.allow_untrained = true});
                }).message(),
                HasSubstr("the metric \"x\" is"))
        << strategy->name();
  }
}

// --- failures ---

struct Mine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(DistributedEvaluationTest, AnErrorOfOneReplicaIsThrownAndTheOthersEnd) {
  for (int64_t broken : {0, 1, 2}) {
    TempDirectory directory;
    std::atomic<int64_t> after{0};
    std::atomic<bool> thrown{false};
    const ModelFn model = [&](const Features& features, const Labels& labels, Mode mode,
                              ModelContext& context) {
      const int64_t batch = features["id"][0].item<int64_t>();
      if (batch == 3 + broken) {
        thrown = true;
        throw Mine("mine");
      }
      // The others are in the middle of it; they do not continue to the end.
      if (batch > 5 && thrown) ++after;
      // Batches that take a while: else the others may be through before the failure is known.
      if (batch > 5) std::this_thread::sleep_for(1ms);
      return two_layers(features, labels, mode, context);
    };
    Estimator estimator(model,
                        config_of(directory / "m", nullptr, distribute::mirrored({.replicas = 3})));
    const InputFn many = [] { return examples(5000).batch(1); };
    EXPECT_THROW(estimator.evaluate(many, {.allow_untrained = true}), Mine);
    EXPECT_LT(after, 3000);
  }
}

TEST(DistributedEvaluationTest, AWorkerThatFailsIsNamedByTheOther) {
  for (int broken : {0, 1}) {
    TempDirectory directory;
    const LocalCluster cluster(2);
    std::atomic<int> told{0};
    run_ranks(2, [&](int rank) {
      const ModelFn model = [&](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
        if (mode == Mode::kEval && rank == broken && features["id"][0].item<int64_t>() >= 20)
          throw Mine("mine");
        return two_layers(features, labels, mode, context);
      };
      Estimator estimator(
          model, config_of(directory / "m", distribute::multi_worker_mirrored(),
                           distribute::multi_worker_mirrored(), cluster.environment(rank)));
      const auto run = [&] {
        train_and_evaluate(
            estimator,
            {.input_fn = [] { return examples(60).repeat().global_batch(12); }, .max_steps = 10},
            {.input_fn = [] { return examples(60).batch(10); }, .steps = std::nullopt});
      };
      if (rank == broken) {
        EXPECT_THROW(run(), Mine);
      } else {
        const Error error = error_of(run);
        EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
        EXPECT_THAT(error.what(), HasSubstr(fmt::format("worker {} failed", broken)));
        EXPECT_THAT(error.what(), HasSubstr("mine"));
      }
      ++told;
    });
    EXPECT_EQ(told, 2);
  }
}

// A process that is gone is noticed while the other still evaluates, and without a collective.
TEST(DistributedEvaluationTest, AWorkerThatDiesIsNamedWithinSeconds) {
  const LocalCluster cluster(2);
  testing::TaskOptions options;
  for (int rank : {0, 1}) {
    options.settings["TF_CONFIG" + std::to_string(rank)] =
        *cluster.environment(rank).get("TF_CONFIG");
  }
  testing::ProcessTasks tasks(
      2,
      [](testing::Task& task) {
        int calls = 0;
        const ModelFn slow = [&](const Features& features, const Labels& labels, Mode mode,
                                 ModelContext& context) {
          if (mode == Mode::kEval) {
            // By then many heartbeats have reported the phase of this worker.
            if (++calls == 100) task.store().set("evaluating/" + std::to_string(task.rank()), "");
            // An evaluation long enough to be killed in the middle of; nothing waits for its end.
            std::this_thread::sleep_for(10ms);
          }
          return two_layers(features, labels, mode, context);
        };
        const Environment environment(
            {{"TF_CONFIG", task.setting("TF_CONFIG" + std::to_string(task.rank()))}});
        // The end of its connection reports it; a worker that stands still for seconds on a busy
        // machine is not meant.
        const auto strategy = distribute::multi_worker_mirrored(
            {.heartbeat_interval = Seconds(0.05), .heartbeat_timeout = Seconds(60)});
        Estimator estimator(slow,
                            config_of(task.directory() + "/m", strategy, strategy, environment));
        const Error error = error_of([&] {
          train_and_evaluate(
              estimator,
              {.input_fn = [] { return examples(60).repeat().global_batch(12); }, .max_steps = 10},
              // Longer than any test waits.
              {.input_fn = [] { return examples(20).repeat(100000).batch(1); },
               .steps = std::nullopt});
        });
        EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
        EXPECT_THAT(error.what(), HasSubstr("worker 1 was lost"));
        EXPECT_THAT(error.what(), HasSubstr("evaluating"));
      },
      options);
  for (int rank : {0, 1}) tasks.store().get("evaluating/" + std::to_string(rank), 30s);
  tasks.kill(1);
  EXPECT_EQ(tasks.wait(0, 30s), 0) << tasks.output(0);
}

}  // namespace
}  // namespace muster::inline v0_1
