// A loop written by hand and an Estimator compute the same, on every strategy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <mutex>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using testing::examples;
using ::testing::HasSubstr;
using testing::latest;
using testing::LocalCluster;
using testing::loss_of;
using testing::quiet_config;
using testing::run_ranks;

// Initial values depend on names, which an Estimator puts its model's in front of.
Layer linear() { return Dense(2, {.kernel_initializer = initializers::zeros()}); }

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode,
                       ModelContext& context) {
  const Tensor loss = loss_of(context.model("net", linear)(features["x"]), labels);
  return EstimatorSpec::train(
      loss, context.optimizer(optim::adam({.learning_rate = 0.1})).minimize(loss));
}

// The weights after a pass over the rows in global batches of 12.
Tensor by_hand(const distribute::StrategyPtr& strategy, int64_t rows,
               const Environment& environment = {}) {
  const auto scope = strategy->scope({.seed = 3, .environment = environment});
  const Layer model = linear();
  const auto adam = optim::adam({.learning_rate = 0.1});
  for (const auto& batch : strategy->distribute(examples(rows).shuffle(rows).batch(12))) {
    strategy->run(
        [&](const Features& features, const Labels& labels) {
          adam.minimize(loss_of(model(features["x"]), labels));
        },
        batch);
  }
  return scope.variable("dense/kernel");
}

RunConfig config_of(const std::string& model_dir, const distribute::StrategyPtr& strategy,
                    const Environment& environment = {}) {
  RunConfig config = quiet_config(model_dir, strategy, environment);
  config.random_seed = 3;
  return config;
}

class CustomLoopTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(CustomLoopTest, IsTheSameAsAnEstimator) {
  const int64_t rows = GetParam();
  const InputFn input = [=] { return examples(rows).shuffle(rows).global_batch(12); };
  const auto by_estimator = [&](const std::string& model_dir) {
    return latest(model_dir).tensors.at("net/dense/kernel");
  };
  for (const distribute::StrategyPtr& strategy :
       {distribute::one_device(), distribute::mirrored({.replicas = 2}),
        distribute::mirrored({.replicas = 3})}) {
    TempDirectory directory;
    Estimator(model_fn, config_of(directory / "m", strategy)).train(input);
    EXPECT_TRUE(by_hand(strategy, rows).equal(by_estimator(directory / "m"))) << strategy->name();
  }
  TempDirectory directory;
  const auto workers = distribute::multi_worker_mirrored();
  {
    const LocalCluster cluster(2, /*chief=*/false);
    run_ranks(2, [&](int rank) {
      Estimator(model_fn, config_of(directory / "m", workers, cluster.environment(rank)))
          .train(input);
    });
  }
  const LocalCluster cluster(2, /*chief=*/false);
  run_ranks(2, [&](int rank) {
    const Tensor kernel = by_hand(workers, rows, cluster.environment(rank));
    EXPECT_TRUE(kernel.equal(by_estimator(directory / "m"))) << "worker " << rank;
  });
}

// 60: full batches; 53: a ragged last one; 49: replicas without data in the last step.
INSTANTIATE_TEST_SUITE_P(Rows, CustomLoopTest, ::testing::Values(60, 53, 49));

TEST(CustomLoopTest, WorkersThatReadTheirOwnEndTogether) {
  const LocalCluster cluster(2, /*chief=*/false);
  const auto strategy = distribute::multi_worker_mirrored();
  run_ranks(2, [&](int rank) {
    const auto scope = strategy->scope({.environment = cluster.environment(rank)});
    // Worker 0 has 2 batches, worker 1 has 3.
    const auto data = strategy->distribute_from_function([](const InputContext& context) {
      return examples(10 + 5 * context.input_pipeline_id).batch(5);
    });
    std::vector<int64_t> rows;
    for (const auto& batch : distribute::DistributedDataset(data)) {
      const auto counts = strategy->run([](const Batch& mine) { return mine.rows(); }, batch);
      rows.push_back(counts[0]);
    }
    EXPECT_THAT(rows,
                rank == 0 ? ::testing::ElementsAre(5, 5, 0) : ::testing::ElementsAre(5, 5, 5));
  });
}

// How a task of a loop was started.
struct Started {
  distribute::ScopeOptions scope{};
  distribute::CommunicationOptions communication{};
  distribute::RunOptions run{};
  int64_t batch_size = 12;
  int64_t rows = 24;
  bool reads_its_own = false;
};

// One pass. What the task with these options is told.
Error refusal_of(Started started, const Environment& environment) {
  started.scope.environment = environment;
  const auto strategy = distribute::multi_worker_mirrored(started.communication);
  return error_of([&] {
    const auto scope = strategy->scope(started.scope);
    const Layer model = linear();
    const Dataset data = examples(started.rows).batch(started.batch_size);
    auto batches =
        started.reads_its_own
            ? strategy->distribute_from_function([&](const InputContext&) { return data; })
            : strategy->distribute(data);
    for (const auto& batch : batches) {
      strategy->run(
          started.run,
          [&](const Features& features, const Labels& labels) {
            optim::sgd().minimize(loss_of(model(features["x"]), labels));
          },
          batch);
    }
  });
}

TEST(CustomLoopTest, WorkersThatWereStartedDifferentlyAreToldWhoHasWhat) {
  const std::vector<std::pair<Started, std::string>> others = {
      {{.scope = {.seed = 4}}, "seed is 0 on worker 0; 4 on worker 1"},
      {{.scope = {.accumulate_steps = 2}}, "accumulate_steps is 1 on worker 0; 2 on worker 1"},
      {{.communication = {.bytes_per_pack = 4096}},
       "bytes_per_pack is 4096 on worker 1; measured on worker 0"},
      {{.communication = {.wire_dtype = kBFloat16}},
       "wire_dtype is bfloat16 on worker 1; float32 on worker 0"},
      {{.run = {.loss_reduction = distribute::ReduceOp::kSum}},
       "loss_reduction is mean on worker 0; sum on worker 1"},
      {{.batch_size = 6}, "batch_size is 12 on worker 0; 6 on worker 1"},
      {{.rows = 36}, "the input is "},
      {{.reads_its_own = true},
       "the data is divided in rows by Muster on worker 0; read by each "
       "worker for itself on worker 1"}};
  for (const auto& [other, said] : others) {
    const LocalCluster cluster(2, /*chief=*/false);
    run_ranks(2, [&](int rank) {
      const Error error = refusal_of(rank == 1 ? other : Started(), cluster.environment(rank));
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << said << ": " << error.what();
      EXPECT_THAT(error.message(), HasSubstr(said));
    });
  }
}

// Options that change after the first step are not a message as long as they are the same.
TEST(CustomLoopTest, OptionsThatChangeLaterAreCompared) {
  const LocalCluster cluster(2, /*chief=*/false);
  run_ranks(2, [&](int rank) {
    const auto strategy = distribute::multi_worker_mirrored();
    const auto scope = strategy->scope({.environment = cluster.environment(rank)});
    const Layer model = linear();
    const auto run = [&](distribute::ReduceOp reduction) {
      for (const auto& batch : strategy->distribute(examples(12).batch(12))) {
        strategy->run(
            distribute::RunOptions{.loss_reduction = reduction},
            [&](const Features& features, const Labels& labels) {
              optim::sgd().minimize(loss_of(model(features["x"]), labels));
            },
            batch);
      }
    };
    run(distribute::ReduceOp::kMean);
    run(distribute::ReduceOp::kSum);  // on both
    run(distribute::ReduceOp::kMean);
    const Tensor before = scope.variable("dense/kernel").clone();
    const Error error = error_of(
        [&] { run(rank == 0 ? distribute::ReduceOp::kMean : distribute::ReduceOp::kSum); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(exit_code(error.kind()), 2);
    // One may hear of the other's error before it has seen the difference itself.
    EXPECT_THAT(
        error.message(),
        HasSubstr("the tasks of this run differ in a step: loss_reduction is mean on worker 0; "
                  "sum on worker 1"));
    EXPECT_EQ(scope.step(), 3);
    EXPECT_TRUE(before.equal(scope.variable("dense/kernel"))) << "it was updated";
  });
}

// One worker is asked to; the other learns of it in a step.
TEST(CustomLoopTest, AllWorkersStopBehindTheSameStep) {
  const TempDirectory directory;
  const LocalCluster cluster(2, /*chief=*/false);
  std::atomic<int64_t> steps = 0;
  run_ranks(2, [&](int rank) {
    const auto strategy = distribute::multi_worker_mirrored();
    std::atomic<bool> asked = false;
    const Error error = error_of([&] {
      const auto scope = strategy->scope(
          {.cancelled = [&] { return asked.load(); }, .environment = cluster.environment(rank)});
      const Layer model = linear();
      for (const auto& batch : strategy->distribute(examples(48).repeat().batch(12))) {
        strategy->run(
            [&](const Features& features, const Labels& labels) {
              optim::sgd().minimize(loss_of(model(features["x"]), labels));
            },
            batch);
        if (scope.step() == 2) asked = rank == 1;
        if (!scope.should_stop()) continue;
        steps += scope.step();
        scope.save(directory / "m");
        scope.stop();
      }
    });
    EXPECT_EQ(error.kind(), rank == 1 ? ErrorKind::kCancelled : ErrorKind::kUnavailable);
    EXPECT_THAT(error.message(), HasSubstr(rank == 1 ? "stopped by its program after saving step 3"
                                                     : "worker 1 was asked to stop; all "
                                                       "stopped after saving step 3"));
  });
  EXPECT_EQ(steps, 6);
  EXPECT_EQ(latest(directory / "m").global_step, 3);
}

// Found at once, and not by pairing it with whatever comes next.
TEST(CustomLoopTest, AWorkerThatLeavesOutACollectiveIsToldSo) {
  const auto strategy = distribute::multi_worker_mirrored();
  const Layer model = linear();
  for (bool trains : {false, true}) {
    const LocalCluster cluster(2, /*chief=*/false);
    std::atomic<int> told{0};
    run_ranks(2, [&](int rank) {
      const auto scope = strategy->scope({.environment = cluster.environment(rank)});
      const Error error = error_of([&] {
        const auto values = strategy->run([&] {
          const Tensor loss = model(torch::ones({1, 3})).sum();
          const Tensor one = torch::ones({});
          if (rank == 1) {
            (void)distribute::ReplicaContext::current().all_reduce(distribute::ReduceOp::kSum, one);
          }
          if (trains) optim::sgd().minimize(loss);
          return one;
        });
        strategy->reduce(distribute::ReduceOp::kSum, values);
      });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
      EXPECT_THAT(error.message(), HasSubstr("and another replica is elsewhere"));
      ++told;
    });
    EXPECT_EQ(told, 2);
  }
}

// The others do not wait at the barriers of saving and restoring for who makes another call.
TEST(CustomLoopTest, AWorkerThatSavesOrRestoresAloneIsToldSo) {
  const auto strategy = distribute::multi_worker_mirrored();
  for (bool saves : {false, true}) {
    const TempDirectory directory;
    const LocalCluster cluster(2, /*chief=*/false);
    ::testing::internal::CaptureStderr();
    run_ranks(2, [&](int rank) {
      const auto scope = strategy->scope({.environment = cluster.environment(rank)});
      const Layer model = linear();
      if (saves) {
        strategy->run([&] { optim::sgd().minimize(model(torch::ones({1, 3})).sum()); });
      }
      if (!scope.is_chief()) return;
      const Error error =
          error_of([&] { saves ? (void)scope.save(directory / "m") : (void)scope.restore("m"); });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
      EXPECT_THAT(error.message(), HasSubstr(saves ? "Scope::save(), which every process"
                                                   : "Scope::restore(), which every process"));
      EXPECT_THAT(error.what(),
                  HasSubstr(saves ? "worker 0 to Scope::save(), worker 1 to the end of its scope"
                                  : "worker 0 to Scope::restore(), worker 1 to the end"));
    });
    log::flush();
    EXPECT_THAT(
        ::testing::internal::GetCapturedStderr(),
        AllOf(HasSubstr("at the end of the scope of"),
              HasSubstr(saves ? "worker 0 to Scope::save()" : "worker 0 to Scope::restore()")));
    EXPECT_FALSE(std::filesystem::exists(directory / "m/model.ckpt-1.safetensors"));
  }
}

TEST(CustomLoopTest, AStrategyOfOneProcessNamesTheOneForWorkers) {
  const LocalCluster cluster(2, /*chief=*/true);
  for (const auto& strategy : {distribute::one_device(), distribute::mirrored({.replicas = 2})}) {
    const Error error =
        error_of([&] { (void)strategy->scope({.environment = cluster.environment(0)}); });
    EXPECT_THAT(error.what(), HasSubstr("TF_CONFIG describes 2 workers, but the strategy " +
                                        std::string(strategy->name())));
    EXPECT_THAT(error.hint(), AllOf(HasSubstr(".train_distribute"),
                                    HasSubstr("strategy_by_name(\"multi_worker\")"),
                                    HasSubstr("--strategy=multi_worker")));
  }
}

TEST(CustomLoopTest, AnExceptionThatLeavesTheScopeIsToldToTheOthers) {
  const LocalCluster cluster(2, /*chief=*/false);
  const auto strategy = distribute::multi_worker_mirrored();
  std::mutex mutex;
  std::vector<std::string> seen(2);
  run_ranks(2, [&](int rank) {
    try {
      const auto scope = strategy->scope({.environment = cluster.environment(rank)});
      const auto one = strategy->run([] { return torch::ones({}); });
      if (rank == 1) throw std::runtime_error("mine");
      for (int i = 0; i < 3; ++i) strategy->reduce(distribute::ReduceOp::kSum, one);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      seen[static_cast<size_t>(rank)] = error.what();
    }
  });
  EXPECT_EQ(seen[1], "mine");
  EXPECT_THAT(seen[0], HasSubstr("worker 1 failed"));
  EXPECT_THAT(seen[0], HasSubstr("an exception left the scope"));
}

}  // namespace
}  // namespace muster::inline v0_1
