// Tests of loops written by hand on parameter servers share these: each task is a thread with its
// own TF_CONFIG. Thread safety: functions for the threads of tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "muster/layers/batch_normalization.h"
#include "muster/layers/dense.h"
#include "muster/layers/sequential.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/ps/parameter_server.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::distribute {

// The state of one task of a loop.
struct Task {
  int rank = 0;  // -1: a server
  StrategyPtr strategy{};
  const Scope& scope;
  Environment environment = {};
};

struct Tasks {
  int workers = 1;  // the chief among them
  int servers = 1;
  ParameterServerOptions servers_options = {};
  ScopeOptions scope = {};
  std::function<bool(int rank)> cancelled = {};  // of each worker, and of servers: -1
};

// Every task of such a cluster enters the scope and does `body`.
inline void run_cluster(const Tasks& tasks, const std::function<void(const Task&)>& body) {
  const muster::testing::LocalCluster cluster(tasks.workers, /*chief=*/true, tasks.servers);
  muster::testing::run_ranks(tasks.workers + tasks.servers, [&](int task) {
    const int rank = task < tasks.workers ? task : -1;
    ScopeOptions options = tasks.scope;
    options.environment =
        rank >= 0 ? cluster.environment(rank) : cluster.server_environment(task - tasks.workers);
    options.cancelled = [&, rank] { return tasks.cancelled && tasks.cancelled(rank); };
    const auto strategy = parameter_server(tasks.servers_options);
    const auto scope = strategy->scope(options);
    body({.rank = rank, .strategy = strategy, .scope = scope, .environment = *options.environment});
  });
}

// A regression on points(), of a program that runs in every task.
class Regression {
 public:
  // Two passes over `data`; `seen` is called after each step. Returns whether the task served.
  bool train(const Task& task, const Dataset& data, int passes = 2,
             const std::function<void()>& seen = {}) const {
    const auto step = [this](const Features& x, const Labels& y) { minimize(x, y); };
    if (task.scope.serve(step)) return true;
    auto training = task.strategy->distribute(data);
    while (training.completed_passes() < passes) {
      for (const auto& batch : training) {
        task.strategy->run(step, batch);
        if (seen) seen();
      }
    }
    return false;
  }
  Tensor loss(const Features& x, const Labels& y) const {
    return losses::mean_squared_error(y, model(x));
  }
  void minimize(const Features& x, const Labels& y) const { adam.minimize(loss(x, y)); }

  Layer model = Sequential({Dense(4), BatchNormalization(), Dense(1)});
  optim::Optimizer adam = optim::adam({.learning_rate = 0.05});
};

using Values = std::map<std::string, Tensor>;

inline void expect_same_bits(const Values& some, const Values& others) {
  ASSERT_EQ(some.size(), others.size());
  for (const auto& [name, value] : some) {
    ASSERT_TRUE(others.contains(name)) << name;
    EXPECT_TRUE(value.equal(others.at(name))) << name;
  }
}

inline Values train_alone(const Dataset& data, int passes, int64_t accumulate = 1) {
  ScopeOptions options = alone(3);
  options.accumulate_steps = accumulate;
  const auto strategy = one_device();
  const auto scope = strategy->scope(options);
  Regression().train({.strategy = strategy, .scope = scope}, data, passes);
  return scope.state().tensors;
}

}  // namespace muster::inline v0_1::distribute
