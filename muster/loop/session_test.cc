// Replicas that are kept from one scope to the next.
#include "muster/loop/session.h"

#include <gtest/gtest.h>

#include "muster/distribute/strategy.h"
#include "muster/layers/dense.h"
#include "muster/layers/sequential.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/plan/activity.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

// A step over all points, and its loss.
double train_step(const StrategyPtr& strategy, const Scope& scope, const Layer& layer) {
  const optim::Optimizer sgd = optim::sgd({.learning_rate = 0.1});
  for (const auto& batch : strategy->distribute(points(8).batch(8))) {
    strategy->run([&](const Features& x,
                      const Labels& y) { sgd.minimize(losses::mean_squared_error(y, layer(x))); },
                  batch);
  }
  return scope.last_step().loss;
}

TEST(SessionTest, KeepsWeightsAndStepsBetweenScopes) {
  for (const StrategyPtr& strategy : {one_device(), mirrored({.replicas = 2})}) {
    const Layer layer = Dense(1);
    std::vector<double> expected, got;
    {
      const Scope scope = strategy->scope(alone());
      for (int i = 0; i < 4; ++i) expected.push_back(train_step(strategy, scope, layer));
    }
    const Session session(strategy, alone());
    EXPECT_FALSE(session.shares_scope());
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(entered_strategy(), nullptr);
      const Scope scope = session.scope();
      EXPECT_EQ(entered_strategy(), strategy);
      got.push_back(train_step(strategy, scope, layer));
      EXPECT_EQ(scope.step(), i + 1);
    }
    EXPECT_EQ(got, expected);
    EXPECT_LT(got[3], got[0]);
  }
}

TEST(SessionTest, TheFirstOneInAScopeSharesItsReplicas) {
  const StrategyPtr strategy = one_device();
  const Scope scope = strategy->scope(alone());
  const Layer layer = Dense(1);
  train_step(strategy, scope, layer);
  const Session first(strategy, alone()), second(strategy, alone());
  EXPECT_TRUE(first.shares_scope());
  EXPECT_FALSE(second.shares_scope());
  {
    const Scope of_first = first.scope();
    train_step(strategy, of_first, layer);
    EXPECT_EQ(of_first.step(), 2);
  }
  const Scope of_second = second.scope();
  EXPECT_EQ(of_second.step(), 0);
}

TEST(SessionTest, BeginsAnewWithMoreVariables) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const Session session(strategy, alone());
  const Layer hidden = Dense(1, {.name = "hidden"});
  const Layer large = Sequential({hidden, Dense(1, {.name = "more"})});
  Checkpoint state;
  Tensor kernel;
  {
    const Scope scope = session.scope();
    train_step(strategy, scope, hidden);
    state = scope.state();
    kernel = scope.variable("hidden/kernel").clone();
  }
  session.begin_again(state, /*accumulate_steps=*/1);
  const Scope scope = session.scope();
  strategy->run({.training = false}, [&] { large(torch::zeros({1, 2})); });
  EXPECT_TRUE(scope.variable("hidden/kernel").equal(kernel));
  train_step(strategy, scope, large);
  EXPECT_EQ(scope.step(), 2);
  EXPECT_FALSE(scope.variable("more/kernel").equal(torch::zeros({1, 1})));
}

// What people see of a loop by hand: its steps, and whether Muster or its program is at work.
TEST(SessionTest, ALoopIsSeenAtWork) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const Session session(strategy, alone());
  const Layer layer = Dense(1);
  const Scope scope = session.scope();
  for (int step = 1; step <= 3; ++step) {
    train_step(strategy, scope, layer);
    const std::vector<plan::ActivityNow> now = plan::activities();
    ASSERT_EQ(now.size(), 2u);
    for (const plan::ActivityNow& replica : now) {
      EXPECT_EQ(replica.activity, plan::Activity::kProgram);
      EXPECT_EQ(replica.step, step);
      EXPECT_EQ(replica.last_step, step) << "its pass over the data has one batch";
      ASSERT_EQ(replica.last.size(), static_cast<size_t>(step));
      EXPECT_GT(replica.last.back().of(plan::Activity::kInput), 0);
      EXPECT_GT(replica.last.back().of(plan::Activity::kCompute), 0);
      if (step > 1) {
        EXPECT_GT(replica.last.back().of(plan::Activity::kProgram), 0);
      }
    }
  }
  strategy->run({.training = false}, [&] {
    EXPECT_EQ(plan::this_activity().activity(), plan::Activity::kEvaluating);
    return layer(torch::zeros({1, 2}));
  });
  // A program that knows its end, as fit() does.
  session.show_last_step(40);
  train_step(strategy, scope, layer);
  for (const plan::ActivityNow& replica : plan::activities()) EXPECT_EQ(replica.last_step, 40);
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
