// The invariants of mixed precision: bits depend neither on buckets nor on recomputation, n
// replicas compute what one does except for bfloat16's rounding, training has the same result as in
// float32, and either reads the other's checkpoints. They hold for the numbers, on any machine.
#include <gtest/gtest.h>

#include <map>

#include "muster/base/temp_directory.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/embedding.h"
#include "muster/layers/functional.h"
#include "muster/layers/merge.h"
#include "muster/layers/mixed_precision.h"
#include "muster/layers/recompute.h"
#include "muster/layers/regularizers.h"
#include "muster/layers/sequential.h"
#include "muster/layers/testing/allow_slow_bfloat16.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/internal/test_towers.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using testing::AllowSlowBfloat16;

// Two inputs, a shared layer, a table, and statistics over the batch.
Layer mixed_tower(const char* policy, bool recomputes = false) {
  const auto wrap = [=](const Layer& layer) { return recomputes ? Recompute(layer) : layer; };
  const SymbolicTensor x = Input({2}), id = Input({}, {.dtype = kInt64});
  const Layer shared = Dense(6, {.kernel_regularizer = regularizers::l2(0.01)});
  const SymbolicTensor words = wrap(Sequential({Embedding(5, 6), shared}))(id);
  const Layer block = wrap(
      Sequential({Dense(6), BatchNormalization({.synchronized = true}), Dropout(0.2), shared}));
  return mixed_precision(policy, Functional({x, id}, {Dense(1)(Add()({words, block(x)}))}));
}

void expect_same_bits(const Values& found, const Values& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    EXPECT_TRUE(value.isfinite().all().item<bool>()) << name;
    EXPECT_EQ(value.scalar_type(), kFloat32) << name;
    EXPECT_TRUE(value.equal(found.at(name))) << name;
  }
}

TEST(MixedPrecisionLawTest, BitsDependNeitherOnBucketsNorOnRecomputation) {
  const AllowSlowBfloat16 anyway;
  for (const int replicas : {1, 2, 3}) {
    for (const int64_t accumulate : {1, 2}) {
      SCOPED_TRACE(std::to_string(replicas) + " replicas, " + std::to_string(accumulate));
      const auto on = [&](int64_t bytes) {
        return mirrored({.replicas = replicas, .bytes_per_pack = bytes});
      };
      const Values expected = train_tower(on(0), accumulate, mixed_tower("bfloat16"));
      EXPECT_EQ(expected.size(), 11u);
      expect_same_bits(train_tower(on(4), accumulate, mixed_tower("bfloat16")), expected);
      expect_same_bits(train_tower(on(256), accumulate, mixed_tower("bfloat16", true)), expected);
      EXPECT_FALSE(train_tower(on(0), accumulate, mixed_tower("float32"))
                       .at("dense/kernel")
                       .equal(expected.at("dense/kernel")));
    }
  }
}

// A gradient is a sum of products of a feature and a number from the loss, both rounded to
// bfloat16, and is rounded itself, on each replica: three times the share e, of the sum of sizes.
TEST(MixedPrecisionLawTest, ReplicasComputeWhatOneDoesButForRounding) {
  const AllowSlowBfloat16 anyway;
  constexpr double kRounding = 1.0 / 256, kLearningRate = 0.5;
  const Dataset data = points(13);
  const auto kernel_after_a_step = [&](int replicas, const char* policy) {
    const StrategyPtr strategy = mirrored({.replicas = replicas});
    const auto scope = strategy->scope(alone(3));
    const Layer model = mixed_precision(
        policy, Dense(1, {.use_bias = false, .kernel_initializer = initializers::constant(0.7)}));
    const auto sgd = optim::sgd({.learning_rate = kLearningRate});
    for (const auto& batch : strategy->distribute(data.batch(13))) {
      strategy->run([&](const Features& x,
                        const Labels& y) { sgd.minimize(losses::mean_squared_error(y, model(x))); },
                    batch);
    }
    return scope.variable("dense/kernel").detach().to(kFloat64);
  };
  const auto batch = data.batch(13).iterator();
  std::optional<Element> element;
  ASSERT_TRUE(element = batch->next());
  const Tensor x = element->part(0).value().tensor().to(kFloat64);
  const Tensor y = element->part(1).value().tensor().to(kFloat64);
  const Tensor outputs =
      x.to(kBFloat16).to(kFloat64).mm(torch::full({2, 1}, 0.7).to(kBFloat16).to(kFloat64));
  // Outputs are rounded as well, which changes the loss.
  const Tensor moved = 2 * outputs.abs() * kRounding / 13;
  const Tensor of_loss = (2 * (outputs - y) / 13).abs() + moved;
  const Tensor sizes = x.abs().t().mm(of_loss * (3 * kRounding + 1e-4) + moved);
  const Tensor exact =
      torch::full({2, 1}, 0.7, kFloat64) - kLearningRate * x.t().mm(2 * (outputs - y) / 13);
  for (const int replicas : {1, 2, 3}) {
    const Tensor found = kernel_after_a_step(replicas, "bfloat16");
    EXPECT_TRUE((found - exact).abs().le(kLearningRate * sizes).all().item<bool>()) << replicas;
  }
}

// Points with noise, which no model learns: the loss stays away from 0.
Dataset noisy_points(int64_t rows) {
  const Tensor x = torch::arange(2 * rows).to(kFloat32).view({rows, 2}).sin();
  const Tensor noise = (torch::arange(rows).to(kFloat32) * 12.9898).sin();
  const Tensor y = (x.select(1, 0) * x.select(1, 1) * 2 + noise * 0.3).unsqueeze(1);
  return Dataset::from_tensor_slices(Element::tuple({x, y}));
}

// A small network that is trained, saved and restored.
class Network {
 public:
  Network(StrategyPtr strategy, const char* policy)
      : strategy_(std::move(strategy)),
        scope_(strategy_->scope(alone(4))),
        model_(mixed_precision(
            policy, Sequential({Dense(16, {.activation = activations::tanh}),
                                Dense(16, {.activation = activations::tanh}), Dense(1)}))) {}

  // Returns the mean loss of the last ten steps.
  double train(int64_t steps) {
    double sum = 0;
    int64_t made = 0;
    for (const auto& batch :
         strategy_->distribute(noisy_points(60).repeat().batch(20).take(steps))) {
      strategy_->run(
          [&](const Features& x, const Labels& y) {
            adam_.minimize(losses::mean_squared_error(y, model_(x)));
          },
          batch);
      if (++made > steps - 10) sum += scope_.last_step().loss / 10;
    }
    return sum;
  }

  // Calls it without training, which gives variables the restored values.
  void look() {
    for (const auto& batch : strategy_->distribute(noisy_points(20).batch(20)))
      strategy_->run(
          {.training = false}, [&](const Features& x, const Labels&) { model_(x); }, batch);
  }

  const Scope& scope() const { return scope_; }

 private:
  StrategyPtr strategy_;
  Scope scope_;
  const Layer model_;
  const optim::Optimizer adam_ = optim::adam({.learning_rate = 0.02});
};

TEST(MixedPrecisionLawTest, TrainsToTheLossOfFloat32) {
  const AllowSlowBfloat16 anyway;
  for (const int replicas : {1, 2}) {
    const auto loss = [&](const char* policy) {
      return Network(mirrored({.replicas = replicas}), policy).train(150);
    };
    const double expected = loss("float32"), found = loss("bfloat16");
    EXPECT_LT(expected, 0.12);
    EXPECT_NE(found, expected);
    EXPECT_NEAR(found / expected, 1, 0.05) << replicas << " replicas";
  }
}

TEST(MixedPrecisionLawTest, EitherReadsTheOthersCheckpoint) {
  const AllowSlowBfloat16 anyway;
  for (const bool from_mixed : {false, true}) {
    TempDirectory directory;
    const std::string path = directory / "model";
    Values saved;
    {
      Network first(mirrored({.replicas = 2}), from_mixed ? "bfloat16" : "float32");
      first.train(12);
      first.scope().save(path);
      for (const std::string& name : first.scope().variable_names())
        saved[name] = first.scope().variable(name).detach().clone();
    }
    Network second(mirrored({.replicas = 2}), from_mixed ? "float32" : "bfloat16");
    ASSERT_TRUE(second.scope().restore(path));
    second.look();
    ASSERT_EQ(saved.size(), 6u);
    for (const auto& [name, value] : saved) {
      EXPECT_EQ(value.scalar_type(), kFloat32);
      EXPECT_TRUE(second.scope().variable(name).equal(value)) << name;
    }
    EXPECT_LT(second.train(100), 0.15);
    EXPECT_EQ(second.scope().step(), 112);
  }
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
