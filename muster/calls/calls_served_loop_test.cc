// Invariants of loops written by hand on parameter servers; each task is a thread with its own
// TF_CONFIG.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/calls/cluster_coordinator.h"
#include "muster/checkpoint/manager.h"
#include "muster/layers/dense.h"
#include "muster/layers/embedding.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "muster/loop/session.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/metrics/metrics.h"
#include "muster/optim/optimizer.h"
#include "muster/ps/parameter_server.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/served_loops.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// --- one worker computes what this process computes alone ---

TEST(ServedLoop, OneWorkerHasTheBitsOfThisProcessAlone) {
  const Dataset data = points(53).shuffle(53).batch(12);
  for (const int64_t accumulate : {1, 2}) {
    const Values alone = train_alone(data, 2, accumulate);
    for (const int servers : {1, 2}) {
      run_cluster({.servers = servers,
                   .servers_options = {.max_staleness = 0},
                   .scope = {.seed = 3, .accumulate_steps = accumulate}},
                  [&](const Task& task) {
                    if (Regression().train(task, data)) return;
                    expect_same_bits(task.scope.state().tensors, alone);
                  });
    }
  }
}

TEST(ServedLoop, RowsOfTablesTrainWhereTheyAre) {
  const Tensor ids = torch::arange(60 * 3).reshape({60, 3}).remainder(23);
  const Dataset data = Dataset::from_tensor_slices(
                           Element::tuple({ids, ids.sum(1, /*keepdim=*/true).to(kFloat32) / 30}))
                           .batch(8);
  const auto train = [&](const StrategyPtr& strategy, const Scope& scope) -> Values {
    const Layer table = Embedding(40, 4), top = Dense(1);
    const auto adagrad = optim::adagrad({.learning_rate = 0.1});
    const auto step = [&](const Features& x, const Labels& y) {
      adagrad.minimize(losses::mean_squared_error(y, top(table(x).mean(1))));
    };
    if (scope.serve(step)) return {};
    for (const auto& batch : strategy->distribute(data)) strategy->run(step, batch);
    if (scope.num_local_replicas() == 1 && strategy->name() == "ParameterServer") {
      EXPECT_THAT(message_of([&] { (void)scope.variable("embedding/embeddings"); }),
                  HasSubstr("whose rows live on servers"));
    }
    return scope.state().tensors;
  };
  Values trained_alone;
  {
    const auto strategy = one_device();
    const auto scope = strategy->scope(alone());
    trained_alone = train(strategy, scope);
  }
  run_cluster({.servers = 2}, [&](const Task& task) {
    const Values served = train(task.strategy, task.scope);
    if (task.rank >= 0) expect_same_bits(served, trained_alone);
  });
}

// --- several workers ---

TEST(ServedLoop, EachExampleIsTrainedOnOnceInEachPass) {
  std::mutex mutex;
  std::map<int64_t, int> seen;
  std::vector<int64_t> steps;
  const Dataset data =
      Dataset::from_tensor_slices(
          Element::tuple({torch::arange(91).to(kFloat32).unsqueeze(1), torch::ones({91, 1})}))
          .shuffle(91)
          .batch(7);
  run_cluster({.workers = 3, .servers = 2}, [&](const Task& task) {
    const Layer model = Dense(1);
    const auto sgd = optim::sgd({.learning_rate = 1e-5});
    const auto step = [&](const Features& x, const Labels& y) {
      sgd.minimize(losses::mean_squared_error(y, model(x)));
      return x.tensor().clone();
    };
    if (task.scope.serve(step)) return;
    auto training = task.strategy->distribute(data);
    while (training.completed_passes() < 2) {
      for (const auto& batch : training) {
        const auto given = task.strategy->run(step, batch);
        const std::lock_guard lock(mutex);
        for (int64_t i = 0; i < given[0].size(0); ++i) ++seen[given[0][i].item<int64_t>()];
      }
    }
    task.scope.end_training();
    const std::lock_guard lock(mutex);
    steps.push_back(task.scope.step());
  });
  EXPECT_EQ(seen.size(), 91u);
  for (const auto& [id, times] : seen) EXPECT_EQ(times, 2) << id;
  // All have waited until no worker made a step any more.
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_EQ(steps[0], steps[2]);
  EXPECT_GE(steps[0], 2 * 13);
}

TEST(ServedLoop, AfterTheEndOfTrainingAllSeeTheSameWeights) {
  std::mutex mutex;
  std::vector<double> sums;
  run_cluster({.workers = 3}, [&](const Task& task) {
    const Regression regression;
    if (regression.train(task, points(120).batch(8), task.rank + 1)) return;
    task.scope.end_training();
    EXPECT_THAT(message_of([&] {
                  task.strategy->run(
                      [&](const Features& x, const Labels& y) { regression.minimize(x, y); },
                      to_batch(Element::tuple({torch::zeros({2, 2}), torch::zeros({2, 1})})));
                }),
                HasSubstr("after end_training()"));
    const std::lock_guard lock(mutex);
    sums.push_back(task.scope.variable("dense/kernel").sum().item<double>());
  });
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

TEST(ServedLoop, AnEvaluationReadsTheWeightsAsTheyAreAndMeasuresThisWorkersShare) {
  std::mutex mutex;
  int64_t rows = 0;
  double largest = 0;  // after the first step of a task; the other may be far ahead then
  run_cluster({.workers = 2}, [&](const Task& task) {
    const Regression regression;
    const auto error = [&] {
      Metric all = metrics::mean(torch::zeros({0}));
      const auto squared = [&](const Features& x, const Labels& y) {
        const Tensor& expected = y;
        return metrics::mean((regression.model(x) - expected).square());
      };
      for (const auto& batch : task.strategy->distribute(points(60).batch(20))) {
        all.merge(task.strategy->reduce(task.strategy->run({.training = false}, squared, batch)));
        const std::lock_guard lock(mutex);
        rows += batch[0].rows();
      }
      return all.result();
    };
    bool measured = false;
    if (regression.train(task, points(120).batch(8), 12, [&] {
          if (std::exchange(measured, true)) return;
          const double first = error();
          const std::lock_guard lock(mutex);
          largest = std::max(largest, first);
        }))
      return;
    // Which waits for the other.
    task.scope.end_training();
    EXPECT_LT(error(), 0.5 * largest);
  });
  EXPECT_EQ(rows, 2 * 60);
}

TEST(ServedLoop, AWorkerWithoutDataIsNoHindranceAndSeesTheSameWeights) {
  std::mutex mutex;
  std::vector<Tensor> weights;
  run_cluster({.workers = 2}, [&](const Task& task) {
    const Regression regression;
    const auto step = [&](const Features& x, const Labels& y) { regression.minimize(x, y); };
    if (task.scope.serve(step)) return;
    const auto data = task.strategy->distribute_from_function([](const InputContext& context) {
      EXPECT_EQ(context.num_input_pipelines, 2);
      return points(context.input_pipeline_id == 0 ? 30 : 0).batch(10);
    });
    auto training = data;
    for (const auto& batch : training) task.strategy->run(step, batch);
    task.scope.end_training();
    EXPECT_EQ(task.scope.step(), 3);
    task.strategy->run({.training = false}, [&] { (void)regression.model(torch::ones({1, 2})); });
    const std::lock_guard lock(mutex);
    weights.push_back(task.scope.variable("dense/kernel"));
  });
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_TRUE(weights[0].equal(weights[1])) << weights[0] << weights[1];
}

// --- tasks that are asked to stop ---

TEST(ServedLoop, AWorkerThatIsAskedToStopLeavesTheOthersAtWork) {
  std::atomic<int64_t> made = 0, by_worker = 0;
  run_cluster({.workers = 2,
               .servers_options = {.rejoin_timeout = Seconds(0.2)},
               .cancelled = [&](int rank) { return rank == 1 && by_worker >= 4; }},
              [&](const Task& task) {
                const auto stops = [&] {
                  ++made;
                  if (task.rank == 1) ++by_worker;
                  if (task.scope.should_stop()) task.scope.stop();
                };
                const auto all = [&] {
                  (void)Regression().train(task, points(320).batch(8), 2, stops);
                };
                if (task.rank != 1) return all();
                EXPECT_EQ(error_of(all).kind(), ErrorKind::kCancelled);
              });
  EXPECT_GT(made, 40);
}

TEST(ServedLoop, AChiefThatIsAskedToStopSavesAndEndsTheRun) {
  TempDirectory directory;
  const std::string model_dir = directory / "model";
  std::atomic<int64_t> made = 0;  // by the worker
  run_cluster(
      {.workers = 2, .cancelled = [&](int rank) { return rank == 0 && made >= 10; }},
      [&](const Task& task) {
        const auto stops = [&] {
          if (task.rank == 1) ++made;
          if (!task.scope.should_stop()) return;
          task.scope.save(model_dir);
          task.scope.stop();
        };
        const auto all = [&] {
          (void)Regression().train(task, points(80).batch(8), 1'000'000, stops);
        };
        if (task.rank < 0) return all();
        const Error end = error_of(all);
        EXPECT_EQ(end.kind(), task.rank == 0 ? ErrorKind::kCancelled : ErrorKind::kUnavailable);
        EXPECT_THAT(end.message(), HasSubstr(task.rank == 0 ? "after saving step"
                                                            : "the chief has ended the run"));
      });
  EXPECT_TRUE(CheckpointManager(model_dir).latest().has_value());
}

// The program itself saves after the first step only; or never, and its scope has a directory.
TEST(ServedLoop, TheChiefSavesForAServerThatIsAskedToStop) {
  for (const bool saved_before : {true, false}) {
    TempDirectory directory;
    const std::string model_dir = directory / "model";
    constexpr int64_t kStruck = 10;
    std::atomic<int64_t> made = 0;
    run_cluster(
        {.servers_options = {.heartbeat_interval = Seconds(0.1), .restart_timeout = Seconds(0.2)},
         .scope = {.model_dir = saved_before ? "" : model_dir},
         .cancelled = [&](int rank) { return rank < 0 && made >= kStruck; }},
        [&](const Task& task) {
          const auto saves = [&] {
            if (++made == 1 && saved_before) task.scope.save(model_dir);
          };
          const auto all = [&] {
            (void)Regression().train(task, points(80).batch(8), 1'000'000, saves);
          };
          const Error end = error_of(all);
          EXPECT_EQ(end.kind(), task.rank < 0 ? ErrorKind::kCancelled : ErrorKind::kPeerLost)
              << end.what();
        });
    const auto newest = CheckpointManager(model_dir).load_latest();
    ASSERT_TRUE(newest.has_value());
    EXPECT_GE(newest->checkpoint.global_step, kStruck);
  }
}

TEST(ServedLoop, AServerDoesNotWaitForALoopThatSavesNowhere) {
  std::atomic<int64_t> made = 0;
  ::testing::internal::CaptureStderr();
  run_cluster(
      {.servers_options = {.heartbeat_interval = Seconds(0.1), .restart_timeout = Seconds(0.2)},
       .cancelled = [&](int rank) { return rank < 0 && made >= 10; }},
      [&](const Task& task) {
        const Error end = error_of([&] {
          (void)Regression().train(task, points(80).batch(8), 1'000'000, [&] { ++made; });
        });
        EXPECT_EQ(end.kind(), task.rank < 0 ? ErrorKind::kCancelled : ErrorKind::kPeerLost);
        if (task.rank < 0) EXPECT_THAT(end.hint(), HasSubstr("give the run a model_dir"));
      });
  log::flush();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("its weights are lost"));
}

// --- refused calls ---

TEST(ServedLoop, CallsThatNeedAllWorkersAreRefusedWithAHint) {
  run_cluster({.workers = 2}, [&](const Task& task) {
    const Regression regression;
    if (task.rank < 0) {
      EXPECT_THAT(error_of([&] { (void)task.strategy->num_replicas_in_sync(); }).hint(),
                  HasSubstr("if (scope.serve(step)) return"));
      EXPECT_FALSE(task.scope.is_chief());
    }
    if (regression.train(task, points(40).batch(8))) return;
    EXPECT_EQ(task.strategy->num_replicas_in_sync(), 1);
    const auto sums = task.strategy->run({.training = false}, [] {
      return ReplicaContext::current().all_reduce(ReduceOp::kSum, torch::ones({1}));
    });
    EXPECT_EQ(task.strategy->reduce(ReduceOp::kSum, sums).item<float>(), 1);
    EXPECT_THAT(error_of([&] { (void)task.strategy->gather(sums); }).hint(),
                HasSubstr("ClusterCoordinator"));
    EXPECT_THAT(message_of([&] { task.scope.assign({}); }), HasSubstr("assign()"));
    EXPECT_THAT(message_of([&] { const Session session(task.strategy, {}); }), HasSubstr("fit()"));
    EXPECT_THAT(
        message_of([&] { ClusterCoordinator(task.strategy, {.environment = task.environment}); }),
        HasSubstr("in a scope on the same parameter servers"));
    if (task.rank > 0) {
      EXPECT_THAT(task.scope.save("nowhere"), "");
    }
  });
}

TEST(ServedLoop, AnErrorOfTheFunctionEndsTheRunForAll) {
  std::atomic<int> told = 0;
  // One of the errors of all tasks is thrown; chance decides which one.
  EXPECT_THAT(error_of([&] {
                run_cluster({.workers = 2}, [&](const Task& task) {
                  const Regression regression;
                  std::atomic<int64_t> made = 0;
                  try {
                    (void)regression.train(task, points(80).batch(8), 1'000'000, [&] {
                      if (task.rank == 1 && ++made == 5) throw invalid_argument("enough");
                    });
                  } catch (const Error&) {
                    ++told;
                    throw;
                  }
                });
              }).message(),
              ::testing::Not(""));
  EXPECT_EQ(told, 3);
}

TEST(ServedLoop, AFunctionThatTrainsNothingIsNoneToServe) {
  EXPECT_THAT(message_of([&] {
                run_cluster({}, [&](const Task& task) {
                  const Regression regression;
                  const auto nothing = [&](const Features& x) { (void)regression.model(x); };
                  const auto step = [&](const Features& x, const Labels& y) {
                    regression.minimize(x, y);
                  };
                  if (task.scope.serve(nothing)) return;
                  for (const auto& batch : task.strategy->distribute(points(40).batch(8)))
                    task.strategy->run(step, batch);
                });
              }),
              HasSubstr("called no Optimizer::minimize()"));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute