#include "muster/parallel/cluster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "muster/base/error_of.h"
#include "muster/metrics/metrics.h"
#include "muster/plan/activity.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/stop_request.h"
#include "tests/support/cluster_workers.h"

namespace muster::inline v0_1 {
namespace {

using testing::alone;
using testing::run_workers;

TEST(ClusterTest, AProcessWithoutALauncherIsAloneAndReducesToItsOwnValues) {
  Cluster cluster(alone());
  EXPECT_EQ(cluster.rank(), 0);
  EXPECT_EQ(cluster.size(), 1);
  EXPECT_TRUE(cluster.is_chief());
  const Tensor value = torch::arange(3);
  EXPECT_TRUE(cluster.all_reduce(value).equal(value));
  EXPECT_TRUE(cluster.broadcast(value).equal(value));
  EXPECT_EQ(cluster.gather(value).size(), 1);
  cluster.barrier();
  cluster.join();
  EXPECT_FALSE(cluster.should_stop());
}

TEST(ClusterTest, ReducesBroadcastsAndGathersOverWorkers) {
  run_workers(3, [](Cluster& cluster) {
    const double mine = cluster.rank() + 1;
    const Tensor value = torch::full({2}, mine);
    EXPECT_TRUE(cluster.all_reduce(value).equal(torch::full({2}, 6.0)));
    EXPECT_TRUE(cluster.all_reduce(value, ReduceOp::kMean).equal(torch::full({2}, 2.0)));
    EXPECT_TRUE(cluster.broadcast(value).equal(torch::full({2}, 1.0)));
    const auto all = cluster.gather(torch::full({cluster.rank() + 1}, mine));
    for (int r = 0; r < 3; ++r)
      EXPECT_TRUE(all[size_t(r)].equal(torch::full({r + 1}, double(r + 1))));
    const Metric mean = cluster.all_reduce(metrics::mean(value));
    EXPECT_EQ(mean.result(), 2);
    cluster.barrier();
  });
}

TEST(ClusterTest, ARequestToStopReachesAllAfterTheSameCall) {
  const testing::LocalCluster workers(2);
  testing::run_ranks(2, [&](int rank) {
    int calls = 0;
    ClusterOptions options = testing::options_of(workers, rank);
    options.cancelled = [&] { return rank == 1 && calls >= 2; };
    Cluster cluster(options);
    while (!cluster.should_stop()) {
      cluster.barrier();
      ++calls;
    }
    EXPECT_EQ(calls, 3);
  });
}

TEST(ClusterTest, ARequestOfTheProgramStopsALoop) {
  Cluster cluster(alone());
  EXPECT_FALSE(cluster.should_stop());
  request_stop();
  EXPECT_TRUE(cluster.should_stop());
  EXPECT_FALSE(Cluster(alone()).should_stop()) << "a loop that begins later is not asked";
}

TEST(ClusterTest, AnExceptionOnOneWorkerEndsTheOthers) {
  const testing::LocalCluster workers(2);
  testing::run_ranks(2, [&](int rank) {
    const Error error = error_of([&] {
      Cluster cluster(testing::options_of(workers, rank));
      if (rank == 1) throw invalid_argument("a row of the table is empty");
      cluster.barrier();
    });
    if (rank == 0) {
      EXPECT_NE(error.message().find("worker 1"), std::string::npos) << error.message();
    }
  });
}

TEST(ClusterTest, RefusesSeveralReplicasInAProcess) {
  ClusterOptions options = alone();
  options.communication.local_replicas = 2;
  EXPECT_EQ(error_of([&] { const Cluster cluster(options); }).kind(), ErrorKind::kInvalidArgument);
}

// What people see of a loop of LibTorch's.
TEST(ClusterTest, ItsLoopIsSeenAtWork) {
  run_workers(2, [](Cluster& cluster) {
    const auto net = cluster.data_parallel(torch::nn::Linear(2, 1));
    const auto mine = [&] {
      for (plan::ActivityNow& now : plan::activities())
        if (now.task == fmt::format("worker {}", cluster.rank())) return now;
      return plan::ActivityNow();
    };
    for (int step = 1; step <= 3; ++step) {
      const Tensor y = net(torch::ones({4, 2}));
      EXPECT_EQ(mine().activity, plan::Activity::kCompute);
      y.sum().backward();
      EXPECT_EQ(mine().activity, plan::Activity::kProgram);
      EXPECT_EQ(mine().step, step);
      EXPECT_GT(mine().last.back().of(plan::Activity::kCommunication), 0);
    }
    // An evaluation is the program's.
    const torch::NoGradGuard no_grad;
    (void)net(torch::ones({4, 2}));
    EXPECT_EQ(mine().activity, plan::Activity::kProgram);
  });
}

// From the third batch on Muster knows that each batch makes a step.
TEST(ClusterTest, ItsLoopShowsWhereItsDataEnds) {
  const auto loop = [](Cluster& cluster, int64_t batches_a_step) {
    auto data =
        cluster.distribute(Dataset::from_tensor_slices({torch::ones({12, 2})}).global_batch(2));
    const auto net = cluster.data_parallel(torch::nn::Linear(2, 1));
    std::vector<int64_t> shown;
    for (int64_t step = 0; step < 4 / batches_a_step; ++step) {
      for (int64_t b = 0; b < batches_a_step; ++b) {
        const Tensor x = data.next()->features;
        if (b == 0) net(x).sum().backward();
        for (const plan::ActivityNow& now : plan::activities()) {
          if (cluster.size() == 1 || now.task == fmt::format("worker {}", cluster.rank()))
            shown.push_back(now.last_step);
        }
      }
    }
    EXPECT_EQ(shown, batches_a_step == 1 ? (std::vector<int64_t>{-1, -1, 6, 6})
                                         : (std::vector<int64_t>{-1, -1, -1, -1}));
  };
  for (const int64_t batches_a_step : {1, 2}) {
    {
      Cluster one(alone());
      loop(one, batches_a_step);
    }
    run_workers(2, [&](Cluster& cluster) { loop(cluster, batches_a_step); });
  }
}

TEST(ClusterTest, AloneAForwardInTrainingBeginsAStep) {
  Cluster cluster(alone());
  const auto net = cluster.data_parallel(torch::nn::Linear(2, 1));
  for (int step = 0; step < 4; ++step) {
    net(torch::ones({4, 2})).sum().backward();
    EXPECT_EQ(plan::activities().at(0).step, step == 0 ? -1 : step);
  }
}

}  // namespace
}  // namespace muster::inline v0_1
