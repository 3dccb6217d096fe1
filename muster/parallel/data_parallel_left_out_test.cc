// What becomes of a worker that leaves out a backward() and makes no other call of its Cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <functional>
#include <latch>
#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/parallel/cluster.h"
#include "tests/support/cluster_workers.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using testing::alone;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::random;

// A loop of a worker, with what it does in other ways than the others.
struct LoopOfWorker {
  int steps = 6;
  std::function<bool(int step)> reaches_backward = [](int) { return true; };
  bool keeps_old_gradients = false;  // as zeros; an optimizer passes over undefined ones
  std::function<double(int step)> rate = [](int) { return 0.1; };
  std::function<void(torch::nn::Linear&, int step)> before_backward = [](auto&, int) {};
};

void train_loop(Cluster& cluster, const LoopOfWorker& loop) {
  torch::nn::Linear model(3, 2);
  auto net = cluster.data_parallel(model, {.name = "net"});
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < loop.steps; ++step) {
    for (const Tensor& weight : model->parameters()) {
      if (weight.grad().defined() && loop.keeps_old_gradients) weight.mutable_grad().zero_();
      if (!loop.keeps_old_gradients) weight.mutable_grad().reset();
    }
    const Tensor x = random({4, 3}, uint64_t(10 * step + cluster.rank()));
    const Tensor loss = net(x).pow(2).mean();
    loop.before_backward(model, step);
    if (loop.reaches_backward(step)) loss.backward();
    static_cast<torch::optim::SGDOptions&>(sgd.param_groups()[0].options()).lr(loop.rate(step));
    sgd.step();
  }
}

struct TwoOutcomes {
  std::string thrown, logged;  // by both workers
};

// Two workers, of which worker 1 has the loop `other`.
TwoOutcomes outcome_of_two(const LoopOfWorker& usual, const LoopOfWorker& other) {
  std::vector<std::string> messages(2);
  const testing::LocalCluster workers(2);
  ::testing::internal::CaptureStderr();
  testing::run_ranks(2, [&](int rank) {
    try {
      Cluster cluster(testing::options_of(workers, rank));
      train_loop(cluster, rank == 1 ? other : usual);
    } catch (const Error& error) {
      messages[size_t(rank)] = error.message();
    }
  });
  return {messages[0] + "\n" + messages[1], ::testing::internal::GetCapturedStderr()};
}

constexpr const char* kDifferentWeights =
    "workers have different weights in a backward() of \"net\"";
constexpr const char* kLeftOut = "seems to have left out a backward()";

TEST(LeftOutBackwardTest, WeightsThatBecomeDifferentEndAllWorkers) {
  // The optimizer moves on with its momentum.
  LoopOfWorker other{.reaches_backward = [](int step) { return step != 2; },
                     .keeps_old_gradients = true};
  EXPECT_THAT(
      outcome_of_two({.keeps_old_gradients = true}, other).thrown,
      AllOf(HasSubstr(kDifferentWeights), HasSubstr("on worker 0, "), HasSubstr(" on worker 1"),
            HasSubstr("forwards since the last backward(): 1 on worker 0, 2 on worker 1\n"
                      "workers have different weights")));
  // A schedule that goes by the worker's own count of steps.
  const auto decay = [](int step) { return 0.1 / (1 + step); };
  other = {.reaches_backward = [](int step) { return step != 2; }, .rate = decay};
  EXPECT_THAT(outcome_of_two({.rate = decay}, other).thrown, HasSubstr(kDifferentWeights));
  // Nothing was left out: another rate, and weights of the worker's own.
  EXPECT_THAT(outcome_of_two({}, {.rate = [](int) { return 0.2; }}).thrown,
              AllOf(HasSubstr(kDifferentWeights), Not(HasSubstr("forwards since"))));
  const auto load = [](torch::nn::Linear& model, int step) {
    const torch::NoGradGuard no_grad;
    if (step == 3) model->weight.mul_(1.1);
  };
  EXPECT_THAT(outcome_of_two({}, {.before_backward = load}).thrown, HasSubstr(kDifferentWeights));
}

TEST(LeftOutBackwardTest, AWorkerWithEqualWeightsIsNamedByAWarning) {
  const TwoOutcomes once =
      outcome_of_two({}, {.reaches_backward = [](int step) { return step != 2; }});
  EXPECT_EQ(once.thrown, "\n");
  EXPECT_THAT(once.logged, HasSubstr("worker 1 seems to have left out a backward(): it came to a "
                                     "backward() of \"net\" after 2 forwards in training without "
                                     "a backward(), worker 0 to a backward() of \"net\" after 1"));
  const TwoOutcomes never = outcome_of_two({}, {.reaches_backward = [](int) { return false; }});
  EXPECT_EQ(never.thrown, "\n");
  EXPECT_THAT(never.logged,
              HasSubstr("worker 1 seems to have left out a backward(): it came to the end of its "
                        "data, in join() or at the end of the Cluster after 6 forwards"));
}

TEST(LeftOutBackwardTest, NothingIsSaidOfLoopsThatMayDiffer) {
  // Less data, and the same updates.
  EXPECT_THAT(outcome_of_two({}, {.steps = 3}).logged, Not(HasSubstr(kLeftOut)));
  const testing::LocalCluster workers(2);
  ::testing::internal::CaptureStderr();
  testing::run_ranks(2, [&](int rank) {
    Cluster cluster(testing::options_of(workers, rank));
    torch::nn::Linear model(3, 2), episodes(3, 2);
    auto net = cluster.data_parallel(model), policy = cluster.data_parallel(episodes);
    const Tensor x = random({4, 3}, 1);
    for (int step = 0; step < 4; ++step) {
      if (cluster.is_chief()) {  // an evaluation, and a sample
        const torch::NoGradGuard no_grad;
        net(x);
        model->eval();
        net(x);
        model->train();
      }
      for (int part = 0; part < 1 + rank; ++part) {
        const auto accumulates = net.no_sync();
        net(x).sum().backward();
      }
      net(x).sum().backward();
      // Episodes of 3 and 4 steps.
      Tensor loss = torch::zeros({});
      for (int i = 0; i < 3 + rank; ++i) loss = loss + policy(x).sum();
      loss.backward();
    }
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr(kLeftOut)));
}

TEST(LeftOutBackwardTest, AWorkerThatStaysAwayIsNamedWithTheCall) {
  const testing::LocalCluster workers(2);
  std::latch others_are_through(1);
  testing::run_ranks(2, [&](int rank) {
    ClusterOptions options = testing::options_of(workers, rank);
    options.communication.timeout = Seconds(0.2);
    const Error error = error_of([&] {
      Cluster cluster(options);
      torch::nn::Linear model(3, 2);
      auto net = cluster.data_parallel(model, {.name = "net"});
      if (rank == 1) others_are_through.wait();
      net(torch::ones({1, 3})).sum().backward();
    });
    if (rank == 0) {
      EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
      EXPECT_THAT(error.message(),
                  AllOf(HasSubstr("worker 0 waited for the others in a backward() of \"net\": "),
                        HasSubstr("worker 1")));
      others_are_through.count_down();
    }
  });
}

}  // namespace
}  // namespace muster::inline v0_1
