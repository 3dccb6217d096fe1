// Several replicas in each of several workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <mutex>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using distribute::mirrored;
using distribute::multi_worker_mirrored;
using nlohmann::json;
using testing::examples;
using ::testing::HasSubstr;
using testing::latest;
using testing::LocalCluster;
using testing::quiet_config;
using testing::run_ranks;
using testing::same_bits;
using testing::two_layers;

struct Case {
  int workers{};
  int locals{};
  Transport transport;
  std::string optimizer{};
  int64_t rows{};  // of 2 epochs in batches of 12
};

class LocalReplicasLawTest : public ::testing::TestWithParam<Case> {};

TEST_P(LocalReplicasLawTest, WorkersTimesReplicasAreSoManyReplicas) {
  const Case law = GetParam();
  TempDirectory directory;
  const json params{{"optimizer", law.optimizer}, {"dropout", 0.2}};
  const InputFn input = [&] {
    return examples(law.rows).shuffle(law.rows).repeat(2).global_batch(12);
  };
  Estimator(two_layers,
            quiet_config(directory / "threads", mirrored({.replicas = law.workers * law.locals})),
            params)
      .train(input);
  const LocalCluster cluster(law.workers);
  run_ranks(law.workers, [&](int rank) {
    const auto strategy =
        multi_worker_mirrored({.local_replicas = law.locals, .implementation = law.transport});
    Estimator(two_layers, quiet_config(directory / "workers", strategy, cluster.environment(rank)),
              params)
        .train(input);
  });
  EXPECT_TRUE(same_bits(latest(directory / "workers"), latest(directory / "threads")));
}
INSTANTIATE_TEST_SUITE_P(Cases, LocalReplicasLawTest,
                         ::testing::Values(Case{2, 2, Transport::kAuto, "adam", 53},
                                           Case{2, 2, Transport::kTcp, "momentum", 60},
                                           Case{3, 2, Transport::kAuto, "clipped", 25},
                                           Case{2, 3, Transport::kAuto, "sgd", 1}));

TEST(LocalReplicasTest, AloneTheyAreMirrored) {
  TempDirectory directory;
  const InputFn input = [] { return examples(30).global_batch(6); };
  Estimator(two_layers, quiet_config(directory / "a", multi_worker_mirrored({.local_replicas = 2})))
      .train(input);
  Estimator(two_layers, quiet_config(directory / "b", mirrored({.replicas = 2}))).train(input);
  EXPECT_TRUE(same_bits(latest(directory / "a"), latest(directory / "b")));
}

TEST(LocalReplicasTest, TheyEvaluateWhatOneEvaluates) {
  TempDirectory directory;
  const InputFn input = [] { return examples(40).repeat().global_batch(8); };
  const InputFn held_out = [] { return examples(37, 2).batch(5); };
  const LocalCluster cluster(2);
  std::mutex mutex;
  std::vector<EvalResult> results;
  run_ranks(2, [&](int rank) {
    const auto strategy = multi_worker_mirrored({.local_replicas = 2});
    RunConfig config = quiet_config(directory / "m", strategy, cluster.environment(rank));
    config.eval_distribute = strategy;
    Estimator estimator(two_layers, config);
    const auto result = train_and_evaluate(estimator, {.input_fn = input, .max_steps = 12},
                                           {.input_fn = held_out, .steps = std::nullopt});
    const std::lock_guard lock(mutex);
    if (result) results.push_back(*result);
  });
  ASSERT_FALSE(results.empty());
  const EvalResult one = Estimator(two_layers, quiet_config(directory / "m")).evaluate(held_out);
  EXPECT_EQ(results[0].at("loss"), one.at("loss"));
  EXPECT_EQ(results[0].at("accuracy"), one.at("accuracy"));
}

TEST(LocalReplicasTest, LoopsRunOnAllOfThem) {
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    const auto strategy = distribute::strategy_by_name("multi_worker:2");
    const auto scope = strategy->scope({.environment = cluster.environment(rank)});
    EXPECT_EQ(scope.num_replicas_in_sync(), 4);
    const auto ids = strategy->run([&] {
      return torch::tensor(
          {static_cast<double>(distribute::ReplicaContext::current().replica_id())});
    });
    ASSERT_EQ(ids.size(), 2u);
    EXPECT_EQ(ids[0].item<double>(), 2 * rank);
    EXPECT_EQ(strategy->reduce(distribute::ReduceOp::kSum, ids).item<double>(), 6);
    EXPECT_TRUE(strategy->gather(ids).equal(torch::arange(4).to(at::kDouble)));
    // When the replicas of one process call a collective, the replicas of the others do not.
    const auto sums = strategy->run([&] {
      distribute::ReplicaContext& context = distribute::ReplicaContext::current();
      return context.merge(
          [](const distribute::PerReplica<int>& all) {
            return static_cast<int64_t>(all[0] + all[1]);
          },
          context.replica_id());
    });
    EXPECT_EQ(sums[0], 4 * rank + 1);
    EXPECT_EQ(sums[1], 4 * rank + 1);
  });
}

TEST(LocalReplicasTest, UnequalNumbersAreNamedOnEveryWorker) {
  TempDirectory directory;
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    const auto strategy = multi_worker_mirrored({.local_replicas = rank + 1});
    Estimator estimator(two_layers,
                        quiet_config(directory / "m", strategy, cluster.environment(rank)));
    const Error error = error_of([&] { estimator.train([] { return examples(10).batch(2); }); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_THAT(error.message(), HasSubstr("worker 0 trains 1 local replicas, worker 1 trains 2"));
  });
  EXPECT_THAT(error_of([] { multi_worker_mirrored({.local_replicas = 0}); }).message(),
              HasSubstr("CommunicationOptions.local_replicas is 0"));
}

// Two workers of six replicas, in a process that may have few open files. If one were waited for,
// it would keep the others for longer than the patience of run_ranks().
void train_with_few_descriptors() {
  const auto open = std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                  std::filesystem::directory_iterator());
  const auto most = static_cast<rlim_t>(open + 150);
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  setrlimit(RLIMIT_NOFILE, &limit);
  TempDirectory directory;
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    Estimator estimator(two_layers,
                        quiet_config(directory / "m", multi_worker_mirrored({.local_replicas = 6}),
                                     cluster.environment(rank)));
    const Error error =
        error_of([&] { estimator.train([] { return examples(120).global_batch(12); }); });
    EXPECT_THAT(error.message(), HasSubstr("of 12 over TCP takes 39 file descriptors"));
    std::fprintf(stderr, "%s\n", error.what());
  });
  std::exit(::testing::Test::HasFailure() ? 1 : 0);
}

TEST(LocalReplicasTest, MoreSocketsThanAProcessMayHaveAreAnErrorThatSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(train_with_few_descriptors(), ::testing::ExitedWithCode(0),
              "is the limit(.|\n)*hint: raise the hard limit");
}

TEST(LocalReplicasTest, AnErrorOfOneEndsAllOfThemAndIsReported) {
  TempDirectory directory;
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    std::atomic<int> calls{0};
    const ModelFn model_fn = [&](const Features& features, const Labels& labels, Mode mode,
                                 ModelContext& context) {
      if (rank == 1 && context.global_step() == 3 && ++calls == 2)
        throw corrupt("row 7 is damaged");
      return two_layers(features, labels, mode, context);
    };
    Estimator estimator(model_fn,
                        quiet_config(directory / "m", multi_worker_mirrored({.local_replicas = 2}),
                                     cluster.environment(rank)));
    const Error error =
        error_of([&] { estimator.train([] { return examples(80).repeat().global_batch(8); }); });
    EXPECT_THAT(error.message(), HasSubstr("row 7 is damaged")) << rank;
    if (rank == 0) {
      EXPECT_THAT(error.message(), HasSubstr("worker 1"));
    }
  });
}

TEST(LocalReplicasTest, ALostWorkerIsNamedToAllOfThem) {
  TempDirectory directory;
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    const auto strategy = multi_worker_mirrored({.local_replicas = 2,
                                                 .heartbeat_interval = Seconds(0.1),
                                                 .heartbeat_timeout = Seconds(20)});
    const ModelFn model_fn = [&](const Features& features, const Labels& labels, Mode mode,
                                 ModelContext& context) {
      // The whole process ends, as when it is killed: its replicas leave without a goodbye.
      if (rank == 1 && context.global_step() == 2) throw std::string("gone");
      return two_layers(features, labels, mode, context);
    };
    Estimator estimator(model_fn,
                        quiet_config(directory / "m", strategy, cluster.environment(rank)));
    const auto train = [&] {
      estimator.train([] { return examples(80).repeat().global_batch(8); });
    };
    if (rank == 1) {
      EXPECT_ANY_THROW(train());
      return;
    }
    EXPECT_THAT(error_of(train).message(), HasSubstr("worker 1"));
  });
}

}  // namespace
}  // namespace muster::inline v0_1
