// The exchange of replicas of one process in the middle of their functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/dense.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(MergeTest, MergeIsCalledOnceWithWhatAllReplicasBring) {
  const StrategyPtr strategy = mirrored({.replicas = 3});
  const auto scope = strategy->scope(alone());
  std::atomic<int> calls{0};
  const auto results = strategy->run([&] {
    auto& context = ReplicaContext::current();
    const auto mine = torch::full({2}, static_cast<double>(context.replica_id())).requires_grad_();
    // A value for each: the sum of the others'.
    const Tensor others = context.merge(
        [&](const PerReplica<Tensor>& values, const PerReplica<int>& ids) {
          ++calls;
          EXPECT_FALSE(ReplicaContext::inside());
          EXPECT_THAT(std::vector<int>(ids.begin(), ids.end()), ElementsAre(0, 1, 2));
          Tensor sum = torch::zeros({2});
          for (const Tensor& value : values) {
            EXPECT_FALSE(value.requires_grad());
            sum += value;
          }
          std::deque<Tensor> parts;
          for (const Tensor& value : values) parts.push_back(sum - value);
          return PerReplica<Tensor>(parts);
        },
        mine, context.replica_id());
    EXPECT_TRUE(ReplicaContext::inside());
    // One value for all, and nothing.
    const int64_t most = context.merge(
        [&](const PerReplica<int>& ids) { return *std::max_element(ids.begin(), ids.end()); },
        context.replica_id());
    context.merge([&] { ++calls; });
    return others + static_cast<double>(most);
  });
  EXPECT_EQ(calls, 2);
  for (size_t r = 0; r < 3; ++r)
    EXPECT_TRUE(results[r].equal(torch::full({2}, 3.0 - static_cast<double>(r) + 2)));
}

TEST(MergeTest, MergeHappensInStepsThatTrainToo) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const auto scope = strategy->scope(alone());
  const Layer model = Dense(1);
  const auto sgd = optim::sgd({.learning_rate = 0.1});
  std::vector<double> sums;
  for (const auto& batch : strategy->distribute(points(20).batch(4))) {
    strategy->run(
        [&](const Features& x, const Labels& y) {
          const Tensor loss = losses::mean_squared_error(y, model(x));
          ReplicaContext::current().merge(
              [&](const PerReplica<Tensor>& all) {
                sums.push_back((all[0] + all[1]).item<double>() / 2);
              },
              loss);
          sgd.minimize(loss);
        },
        batch);
    EXPECT_NEAR(sums.back(), scope.last_step().loss, 1e-6);
  }
  EXPECT_EQ(sums.size(), 6u);  // once more to make the variables
}

TEST(MergeTest, TheStrategyIsNotCalledInside) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const auto scope = strategy->scope(alone());
  const PerReplica<Tensor> values = strategy->run([] { return torch::ones({1}); });
  EXPECT_THAT(
      error_of([&] {
        strategy->run([&] {
          ReplicaContext::current().merge([&] { (void)strategy->reduce(ReduceOp::kSum, values); });
        });
      }).message(),
      HasSubstr("called inside of merge()"));
}

// The error of three replicas that run `body`.
std::string message_of_three(const std::function<void(ReplicaContext&)>& body) {
  const StrategyPtr strategy = mirrored({.replicas = 3});
  ScopeOptions options = alone();
  options.merge_timeout = Seconds(0.2);
  const auto scope = strategy->scope(options);
  return error_of([&] { strategy->run([&] { body(ReplicaContext::current()); }); }).message();
}

TEST(MergeTest, AReplicaThatDoesNotComeToMergeIsNamed) {
  EXPECT_THAT(message_of_three([](ReplicaContext& context) {
                if (context.replica_id() != 2) context.merge([] {});
              }),
              HasSubstr("in merge() for replica 2, whose function has ended"));
  EXPECT_THAT(message_of_three([](ReplicaContext& context) {
                if (context.replica_id() == 1) {
                  context.merge([] { return 1; });
                } else {
                  context.merge([] { return 1.0; });
                }
              }),
              HasSubstr("came to different calls of merge()"));
  EXPECT_THAT(message_of_three([](ReplicaContext& context) {
                context.merge([] { throw invalid_argument("mine"); });
              }),
              HasSubstr("mine"));
  std::atomic<bool> over{false};
  EXPECT_THAT(message_of_three([&](ReplicaContext& context) {
                if (context.replica_id() == 1) {
                  await([&] { return over.load(); });
                  return;
                }
                try {
                  context.merge([] {});
                } catch (...) {
                  over = true;
                  throw;
                }
              }),
              HasSubstr("replica 1 did not come to merge() within 0.2 s"));
  // An earlier exception of one replica is the one that is thrown.
  EXPECT_THAT(message_of_three([](ReplicaContext& context) {
                if (context.replica_id() == 1) throw corrupt("the shard is damaged");
                context.merge([] {});
              }),
              HasSubstr("the shard is damaged"));
}

TEST(MergeTest, AReplicaThatWaitsForTheFunctionOfMergeGivesUpAndTheRunWithIt) {
  std::atomic<bool> over{false};
  EXPECT_THAT(message_of_three([&](ReplicaContext& context) {
                context.merge([] {});
                const auto wait = [&](const PerReplica<std::string>& brought) {
                  await([&] { return over.load(); });
                  // The replicas that brought them have left.
                  EXPECT_THAT(std::vector<std::string>(brought.begin(), brought.end()),
                              ElementsAre(std::string(100, 'a'), std::string(100, 'b'),
                                          std::string(100, 'c')));
                  return brought;
                };
                try {
                  const std::string mine(100, static_cast<char>('a' + context.replica_id()));
                  (void)context.merge(wait, mine);
                } catch (...) {
                  over = true;
                  throw;
                }
              }),
              testing::ContainsRegex("function given to merge\\(\\) did not return within 0.2 s: "
                                     "replica 0 runs it, in merge\\(\\) number 2 of its call after "
                                     "step 0, where replica [12] waited"));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
