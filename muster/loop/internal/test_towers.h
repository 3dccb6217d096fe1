// For tests: trains a model of two inputs, a row of numbers and an id, with any strategy.
#pragma once

#include <map>
#include <string>

#include "muster/distribute/strategy.h"
#include "muster/layers/layer.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

using Values = std::map<std::string, Tensor>;

// Returns all variables after two epochs. 53 examples: in the last batch some replicas are without
// any, and with two batches for an update it waits for one.
inline Values train_tower(const StrategyPtr& strategy, int64_t accumulate, const Layer& model) {
  ScopeOptions options = alone(5);
  options.accumulate_steps = accumulate;
  const auto scope = strategy->scope(options);
  const auto adam = optim::adam({.learning_rate = 0.05});
  const auto step = [&](const Features& features, const Labels& y) {
    const Tensor& x = features;
    const Tensor id = x.select(1, 0).mul(2.4).to(kInt64).abs();
    adam.minimize(losses::mean_squared_error(y, model({.tensors = {x, id}}).tensors[0]));
  };
  for (const auto& batch : strategy->distribute(points(53).repeat(2).batch(13)))
    strategy->run(step, batch);
  scope.apply_accumulated();
  Values values;
  for (const std::string& name : scope.variable_names())
    values[name] = scope.variable(name).detach().clone();
  return values;
}

}  // namespace muster::inline v0_1::distribute
