// Programs that train by themselves inside of run(), as they did before they had a strategy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <optional>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/dense.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A module and an optimizer of LibTorch for each replica, all with the same weights.
struct Own {
  torch::nn::Linear net{2, 1};
  torch::optim::SGD sgd{net->parameters(), 0.1};

  Own() {
    const torch::NoGradGuard no_grad;
    for (Tensor& weight : net->parameters()) weight.fill_(0.5);
  }
  Tensor loss(const Features& x, const Labels& y) {
    const Tensor& in = x;
    const Tensor& out = y;
    return (net(in) - out).square().mean();
  }
};

using Step = std::function<void(const Features& x, const Labels& y, int replica)>;

// Calls `step` on each batch, on every replica.
void run_all(const StrategyPtr& strategy, const Step& step) {
  const auto scope = strategy->scope(alone());
  for (const auto& batch : strategy->distribute(points(24).batch(6))) {
    strategy->run([&](const Features& x,
                      const Labels& y) { step(x, y, ReplicaContext::current().replica_id()); },
                  batch);
  }
}

std::string refusal(const Step& step) {
  const Error error = error_of([&] { run_all(mirrored({.replicas = 2}), step); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
  EXPECT_THAT(error.hint(), AllOf(HasSubstr("minimize(loss)"), HasSubstr("torch_module()")));
  return error.message();
}

TEST(OwnTrainingTest, AModelThatEachReplicaTrainsForItselfIsRefusedAtTheFirstStep) {
  std::vector<Own> own(2);
  int steps = 0;
  const std::string said = refusal([&](const Features& x, const Labels& y, int replica) {
    Own& mine = own[static_cast<size_t>(replica)];
    mine.sgd.zero_grad();
    mine.loss(x, y).backward();
    mine.sgd.step();
    if (replica == 0) ++steps;
  });
  EXPECT_THAT(said,
              AllOf(HasSubstr("the function of run() trains float32[1, 2], float32[1] by a "
                              "backward() of its own"),
                    HasSubstr("differ, so each of the 2 replicas trains a model of its own")));
  EXPECT_EQ(steps, 1);
}

TEST(OwnTrainingTest, GradientsThatWaitForALaterStepAreSeen) {
  std::vector<Own> own(2);
  EXPECT_THAT(refusal([&](const Features& x, const Labels& y, int replica) {
                own[static_cast<size_t>(replica)].loss(x, y).backward();
              }),
              HasSubstr("the gradients of replicas 0 and 1 differ"));
}

TEST(OwnTrainingTest, AModelBesideOneThatMusterTrainsIsSeen) {
  std::vector<Own> own(2);
  const Layer model = Dense(1);
  EXPECT_THAT(refusal([&](const Features& x, const Labels& y, int replica) {
                Own& mine = own[static_cast<size_t>(replica)];
                mine.sgd.zero_grad();
                mine.loss(x, y).backward();
                mine.sgd.step();
                optim::sgd().minimize(losses::mean_squared_error(y, model(x)));
              }),
              HasSubstr("trains float32[1, 2], float32[1]"));
}

TEST(OwnTrainingTest, OwnTrainingThatBeginsInALaterCallIsSeenThen) {
  std::vector<Own> own(2);
  std::vector<int> calls(2);
  EXPECT_THAT(refusal([&](const Features& x, const Labels& y, int replica) {
                if (++calls[static_cast<size_t>(replica)] < 3) return;
                own[static_cast<size_t>(replica)].loss(x, y).backward();
              }),
              HasSubstr("differ"));
  EXPECT_EQ(calls[0], 4);
}

TEST(OwnTrainingTest, ThreadsThatShareAModelAreRefused) {
  Own shared;
  EXPECT_THAT(refusal([&](const Features&, const Labels&, int) {
                const Tensor x = torch::ones({1, 2});
                shared.net(x).sum().backward();
              }),
              HasSubstr("train the same tensors"));
}

TEST(OwnTrainingTest, GradientsThatAProgramAddsUpItselfPass) {
  std::vector<Own> own(2);
  run_all(mirrored({.replicas = 2}), [&](const Features& x, const Labels& y, int replica) {
    Own& mine = own[static_cast<size_t>(replica)];
    mine.sgd.zero_grad();
    mine.loss(x, y).backward();
    for (Tensor& weight : mine.net->parameters()) {
      weight.mutable_grad() =
          ReplicaContext::current().all_reduce(ReduceOp::kMean, weight.grad()).clone();
    }
    mine.sgd.step();
  });
  EXPECT_TRUE(own[0].net->weight.equal(own[1].net->weight));
  EXPECT_FALSE(own[0].net->weight.equal(Own().net->weight));
}

TEST(OwnTrainingTest, GradientsOfTheInputTrainNothingAndPass) {
  const Layer model = Dense(1);
  run_all(mirrored({.replicas = 2}), [&](const Features& x, const Labels& y, int) {
    const Tensor& clean = x;
    Tensor other = clean.clone().requires_grad_();
    losses::mean_squared_error(y, model(other)).backward();
    const Tensor harder = (other + 0.1 * other.grad().sign()).detach();
    optim::sgd().minimize(losses::mean_squared_error(y, model(harder)));
  });
}

TEST(OwnTrainingTest, OneReplicaIsToldAndTrains) {
  Own own;
  ::testing::internal::CaptureStderr();
  run_all(one_device(), [&](const Features& x, const Labels& y, int) {
    own.sgd.zero_grad();
    own.loss(x, y).backward();
    own.sgd.step();
  });
  log::flush();
  const std::string said = ::testing::internal::GetCapturedStderr();
  const size_t first = said.find("run() made no step");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("run() made no step", first + 1), std::string::npos) << said;
  EXPECT_THAT(said, AllOf(HasSubstr("backward() itself"), HasSubstr("in no checkpoint")));
  EXPECT_FALSE(own.net->weight.equal(Own().net->weight));
}

TEST(OwnTrainingTest, ALoopWithoutRunIsRefused) {
  const auto train = [](const StrategyPtr& strategy, bool sums) {
    Own own;
    const auto scope = strategy->scope(alone());
    int batches = 0;
    for (const auto& batch : strategy->distribute(points(24).batch(6))) {
      ++batches;
      own.loss(batch[0].features, batch[0].labels).backward();
      if (sums) {
        PerReplica<Tensor> here =
            strategy->run({.training = false}, [] { return torch::ones({}); });
        (void)strategy->reduce(ReduceOp::kSum, here);
      }
    }
    return batches;
  };
  const Error error = error_of([&] { (void)train(mirrored({.replicas = 2}), false); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("calls backward() itself, and no run()"));
  EXPECT_THAT(error.hint(), HasSubstr("give it to run()"));
  EXPECT_EQ(train(one_device(), false), 4);
  // A program that combines gradients by itself is not warned.
  EXPECT_EQ(train(mirrored({.replicas = 2}), true), 4);
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
