// A session whose workers change between two calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "muster/base/error_of.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/distribute/elastic_run.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/dense.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/loop/session.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 24, kBatch = 6, kLostAfter = 2;

// One worker of three is lost after step 2. The others have step 2, its data and the notes of one
// of them; the next worker comes with the state of the others.
TEST(ElasticSessionTest, OthersGoOnWithStateDataAndNotes) {
  const muster::testing::LocalCluster cluster(3);
  std::atomic<bool> has_gone_on{false};
  muster::testing::run_ranks(3, [&](int rank) {
    const StrategyPtr strategy = multi_worker_mirrored();
    const ScopeOptions options{.seed = 3, .environment = cluster.environment(rank)};
    const Session session(
        strategy, options,
        {.run = ElasticRun::of(
             cluster::resolve_cluster(*options.environment, {.worker_zero_may_be_chief = true}),
             *strategy, 2),
         .call = "a test"});
    EXPECT_FALSE(session.in_memory());
    const Scope scope = session.scope();
    const Layer layer = Dense(1);
    const optim::Optimizer adam = optim::adam({.learning_rate = 0.1});
    const auto step = [&](const PerReplica<Batch>& batch) {
      strategy->run(
          [&](const Features& x, const Labels& y) {
            adam.minimize(losses::mean_squared_error(y, layer(x)));
          },
          batch);
      EXPECT_EQ(scope.last_step().rows, kBatch);
      session.note_place();
    };
    const Dataset data = points(kRows).shuffle(kRows).global_batch(kBatch);
    std::optional<DistributedDataset> distributed = strategy->distribute(data);
    auto batch = distributed->begin();
    for (; scope.step() < kLostAfter; ++batch) step(*batch);
    if (rank == 2) {
      const Error lost = error_of([&] {
        strategy->run({.training = false}, [] { throw Error(ErrorKind::kUnavailable, "lost"); });
      });
      EXPECT_FALSE(session.goes_on_after(lost));
      return;
    }
    const Error lost = error_of([&] { step(*batch); });
    EXPECT_EQ(lost.kind(), ErrorKind::kPeerLost) << lost.what();
    ASSERT_TRUE(session.goes_on_after(lost));
    session.regroup(
        "a test",
        [&](int64_t of_step) {
          EXPECT_EQ(of_step, kLostAfter);
          return std::map<std::string, std::string>{{"of", std::to_string(rank)}};
        },
        /*together=*/false);
    EXPECT_TRUE(session.in_memory());
    EXPECT_EQ(scope.step(), kLostAfter);
    EXPECT_EQ(scope.restored_notes().at("of"), "0");
    EXPECT_EQ(session.gather_text([&] { return std::to_string(rank); }),
              (std::vector<std::string>{"0", "1"}));
    EXPECT_THAT(error_of([&] { ++batch; }).message(), HasSubstr("the workers have changed"));
    distributed = strategy->distribute(data);
    for (const auto& next : *distributed) step(next);
    EXPECT_EQ(scope.step(), kRows / kBatch);
    EXPECT_EQ(distributed->completed_passes(), 1);
    EXPECT_TRUE(scope.state().tensors.contains("Adam/iterations"));
    has_gone_on = true;
  });
  EXPECT_TRUE(has_gone_on);
}

// It is not taken for a worker that makes another call.
TEST(ElasticSessionTest, AWorkerThatIsLostBeforeASaveIsNamed) {
  const muster::testing::LocalCluster cluster(2);
  muster::testing::run_ranks(2, [&](int rank) {
    const StrategyPtr strategy = multi_worker_mirrored();
    const Scope scope = strategy->scope({.environment = cluster.environment(rank)});
    const Layer layer = Dense(1);
    const auto sgd = optim::sgd({.learning_rate = 0.1});
    DistributedDataset data = strategy->distribute(points(kBatch).global_batch(kBatch));
    for (const auto& batch : data) {
      strategy->run([&](const Features& x,
                        const Labels& y) { sgd.minimize(losses::mean_squared_error(y, layer(x))); },
                    batch);
    }
    const Error error = error_of([&] {
      if (rank == 1)
        strategy->run({.training = false}, [] { throw Error(ErrorKind::kUnavailable, "lost"); });
      scope.save("unused");
    });
    if (rank == 1) return;
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    EXPECT_THAT(error.message(), HasSubstr("worker 1 failed"));
  });
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
