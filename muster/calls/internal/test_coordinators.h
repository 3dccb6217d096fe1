// A program with a ClusterCoordinator, for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "muster/calls/cluster_coordinator.h"
#include "muster/layers/dense.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/ps/parameter_server.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

// A regression on points(), as every task defines it.
struct Program {
  Layer model = Dense(1);
  optim::Optimizer optimizer = optim::adam({.learning_rate = 0.05});
  int64_t repeat = -1;
  double divisor = 1;  // of losses
  RemoteFunctionName train{""}, evaluate{""}, echo{""};

  Tensor loss(const RemoteCall& call) const {
    const Tensor& x = call.batch().features;
    return losses::mean_squared_error(call.batch().labels, model(x)) / divisor;
  }

  void define(ClusterCoordinator& coordinator) {
    const auto data = [this](const InputContext&) { return points(40).repeat(repeat).batch(8); };
    const auto training = coordinator.create_per_worker_dataset("training", data);
    const auto test = coordinator.create_per_worker_dataset("test", data);
    train = coordinator.define("train",
                               [this](const RemoteCall& call) -> std::vector<Tensor> {
                                 const Tensor value = loss(call);
                                 optimizer.minimize(value);
                                 return {value};
                               },
                               {.training = true, .data = training});
    evaluate = coordinator.define(
        "evaluate", [this](const RemoteCall& call) -> std::vector<Tensor> { return {loss(call)}; },
        {.data = test});
    echo = coordinator.define("echo", [](const RemoteCall& call) -> std::vector<Tensor> {
      for (const Tensor& argument : call.arguments()) {
        if (argument.numel() > 0 && argument.flatten()[0].item<double>() < 0)
          throw invalid_argument("it is negative");
      }
      return call.arguments();
    });
  }
};

inline void run_alone(CoordinatorOptions options,
                      const std::function<void(ClusterCoordinator&, Program&)>& body,
                      const std::function<void(Program&)>& change = {}) {
  options.environment = Environment();
  options.cancelled = [] { return false; };
  Program program;
  if (change) change(program);
  ClusterCoordinator coordinator(parameter_server(), options);
  program.define(coordinator);
  ASSERT_FALSE(coordinator.serve());
  body(coordinator, program);
}

inline std::vector<double> train_steps(ClusterCoordinator& coordinator, const Program& program,
                                       int steps) {
  std::vector<RemoteValue> values;
  for (int i = 0; i < steps; ++i) values.push_back(coordinator.schedule(program.train));
  coordinator.join();
  std::vector<double> losses;
  for (const auto& value : values) {
    EXPECT_TRUE(value.ready());
    losses.push_back(coordinator.fetch(value).at(0).item<double>());
  }
  return losses;
}

}  // namespace muster::inline v0_1::distribute
