// The law of recomputation: whatever the replicas, and the batches of an update, training leaves
// the same bits with it and without.
#include <gtest/gtest.h>

#include <map>

#include "muster/distribute/strategy.h"
#include "muster/layers/core.h"
#include "muster/layers/embedding.h"
#include "muster/layers/functional.h"
#include "muster/layers/merge.h"
#include "muster/layers/normalization.h"
#include "muster/layers/recompute.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/internal/test_loops.h"
#include "muster/loop/scope.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

Layer tower(bool recomputes) {
  const auto wrap = [=](Layer layer) { return recomputes ? Recompute(layer) : layer; };
  const SymbolicTensor x = Input({2}), id = Input({}, {.dtype = kInt64});
  const Layer table = Embedding(5, 4, {.row_sparse = true});
  const SymbolicTensor words = wrap(Sequential({table, Dense(6)}))(id);
  const Layer block = wrap(
      Sequential({Dense(6), BatchNormalization({.synchronized = true}), Dropout(0.2), Dense(6)}));
  const SymbolicTensor seen = block(wrap(Sequential({Dense(6), BatchNormalization()}))(x));
  return Functional({x, id}, {Dense(1)(Add()({seen, words}))});
}

// 53 examples: in the last batch replicas are without any, and with two batches for an update it
// waits for one.
std::map<std::string, Tensor> train(const StrategyPtr& strategy, int64_t accumulate,
                                    bool recomputes) {
  ScopeOptions options = alone(5);
  options.accumulate_steps = accumulate;
  const auto scope = strategy->scope(options);
  const Layer model = tower(recomputes);
  const auto adam = optim::adam({.learning_rate = 0.05});
  const auto step = [&](const Features& features, const Labels& y) {
    const Tensor& x = features;
    const Tensor id = x.select(1, 0).mul(2.4).to(kInt64).abs();
    adam.minimize(losses::mean_squared_error(y, model({.tensors = {x, id}}).tensors[0]));
  };
  for (const auto& batch : strategy->distribute(points(53).repeat(2).batch(13)))
    strategy->run(step, batch);
  scope.apply_accumulated();
  std::map<std::string, Tensor> values;
  for (const std::string& name : scope.variable_names())
    values[name] = scope.variable(name).detach().clone();
  return values;
}

TEST(RecomputeLawTest, TrainingLeavesTheSameBits) {
  for (const int replicas : {1, 2, 3}) {
    for (const int64_t accumulate : {1, 2}) {
      SCOPED_TRACE(std::to_string(replicas) + " replicas, " + std::to_string(accumulate));
      const StrategyPtr strategy = mirrored({.replicas = replicas});
      const auto expected = train(strategy, accumulate, false);
      const auto found = train(strategy, accumulate, true);
      ASSERT_EQ(expected.size(), 19u);
      ASSERT_EQ(expected.size(), found.size());
      for (const auto& [name, value] : expected) {
        EXPECT_TRUE(value.isfinite().all().item<bool>()) << name;
        EXPECT_TRUE(value.equal(found.at(name))) << name;
      }
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
