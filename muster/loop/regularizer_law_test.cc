// Invariant of regularizers and constraints: n replicas compute what one computes on the undivided
// batch with the penalties written by hand, whether losses are averaged or added, in one batch or
// in several that make one update, and if replicas have unequal rows or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "muster/base/error_of.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/constraints.h"
#include "muster/layers/dense.h"
#include "muster/layers/regularizers.h"
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

using ::testing::HasSubstr;

// The result of a run: weights, and the loss of each update.
struct Outcome {
  std::map<std::string, Tensor> weights;
  std::vector<double> losses;
};

Tensor fourth_powers(const Tensor& value) { return value.pow(4).sum() * 0.02; }

// Returns a variable that a layer has made.
Tensor made(const std::string& name, Shape shape) {
  return ReplicaContext::current().variable({.name = name, .shape = std::move(shape)});
}

// Two layers; their penalties come from the layers, or are written by hand.
struct Model {
  explicit Model(bool by_hand)
      : by_hand(by_hand),
        hidden(Dense(4, by_hand ? DenseOptions{.activation = activations::tanh, .name = "hidden"}
                                : DenseOptions{.activation = activations::tanh,
                                               .kernel_regularizer =
                                                   regularizers::l1_l2({.l1 = 0.02, .l2 = 0.03}),
                                               .activity_regularizer = regularizers::l2(0.05),
                                               .name = "hidden"})),
        out(Dense(1, by_hand ? DenseOptions{.name = "out"}
                             : DenseOptions{.kernel_regularizer = fourth_powers,
                                            .bias_regularizer = regularizers::l2(0.1),
                                            .name = "out"})) {}

  Tensor loss(const Tensor& x, const Tensor& y, ReduceOp reduction) const {
    const bool mean = reduction == ReduceOp::kMean;
    const Tensor activity = hidden(x);
    const Tensor loss = losses::mean_squared_error(
        y, out(activity), {.reduction = mean ? losses::Reduction::kMean : losses::Reduction::kSum});
    if (!by_hand) return loss;
    const Tensor kernel = made("hidden/kernel", {2, 4}), bias = made("out/bias", {1});
    return loss + 0.02 * kernel.abs().sum() + 0.03 * kernel.square().sum() +
           fourth_powers(made("out/kernel", {4, 1})) + 0.1 * bias.square().sum() +
           0.05 * activity.square().sum() / (mean ? static_cast<double>(x.size(0)) : 1.0);
  }

  bool by_hand;
  Layer hidden, out;
};

Outcome outcome_of(const StrategyPtr& strategy, const Model& model, ReduceOp reduction,
                   int64_t batch_size, int64_t accumulate_steps = 1) {
  ScopeOptions options = alone(3);
  options.accumulate_steps = accumulate_steps;
  const auto scope = strategy->scope(options);
  const auto sgd = optim::sgd({.learning_rate = 0.02, .momentum = 0.9});
  Outcome outcome;
  const auto note = [&] {
    if (scope.step() == static_cast<int64_t>(outcome.losses.size())) return;
    outcome.losses.push_back(scope.last_step().loss);
  };
  // 13 examples: the last batch leaves replicas without any.
  const Dataset data = points(13).repeat(2).batch(batch_size / accumulate_steps);
  for (const auto& batch : strategy->distribute(data)) {
    strategy->run(
        {.loss_reduction = reduction},
        [&](const Features& x, const Labels& y) { sgd.minimize(model.loss(x, y, reduction)); },
        batch);
    note();
  }
  scope.apply_accumulated();
  note();
  for (const std::string& name : scope.variable_names())
    outcome.weights[name] = scope.variable(name).clone();
  return outcome;
}

void expect_near(const Outcome& one, const Outcome& other) {
  ASSERT_EQ(one.losses.size(), other.losses.size());
  for (size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(one.losses[i], other.losses[i], 2e-5 * std::max(1.0, std::abs(one.losses[i]))) << i;
  }
  ASSERT_EQ(one.weights.size(), other.weights.size());
  for (const auto& [name, value] : one.weights)
    EXPECT_TRUE(at::allclose(value, other.weights.at(name), 1e-4, 1e-5)) << name;
}

TEST(RegularizerLawTest, ReplicasComputeThePenaltyWrittenByHand) {
  for (const auto reduction : {ReduceOp::kMean, ReduceOp::kSum}) {
    for (const int64_t batch_size : {4, 6}) {
      const Outcome hand = outcome_of(one_device(), Model(true), reduction, batch_size);
      ASSERT_EQ(hand.losses.size(), static_cast<size_t>((26 + batch_size - 1) / batch_size));
      for (const int replicas : {1, 2, 3}) {
        for (const int64_t accumulate_steps : {1, 2}) {
          SCOPED_TRACE(::testing::Message()
                       << (reduction == ReduceOp::kMean ? "mean" : "sum") << " of " << batch_size
                       << " in " << accumulate_steps << " batches on " << replicas << " replicas");
          const StrategyPtr strategy =
              replicas == 1 ? one_device() : mirrored({.replicas = replicas});
          expect_near(outcome_of(strategy, Model(false), reduction, batch_size, accumulate_steps),
                      hand);
        }
      }
    }
  }
}

// The invariant above would hold too if neither had a penalty.
TEST(RegularizerLawTest, PenaltiesMatter) {
  const Model plain(true);
  const Outcome with = outcome_of(one_device(), Model(false), ReduceOp::kMean, 6);
  const Outcome without = [&] {
    const StrategyPtr strategy = one_device();
    const auto scope = strategy->scope(alone(3));
    const auto sgd = optim::sgd({.learning_rate = 0.02, .momentum = 0.9});
    Outcome outcome;
    for (const auto& batch : strategy->distribute(points(13).repeat(2).batch(6))) {
      strategy->run(
          [&](const Features& x, const Labels& y) {
            sgd.minimize(losses::mean_squared_error(y, plain.out(plain.hidden(x))));
          },
          batch);
      outcome.losses.push_back(scope.last_step().loss);
    }
    return outcome;
  }();
  EXPECT_GT(with.losses[0], without.losses[0] + 0.01);
}

TEST(RegularizerLawTest, TheSizeOfBucketsIsNotInTheBits) {
  const auto on = [](int64_t bytes) {
    return outcome_of(mirrored({.replicas = 2, .bytes_per_pack = bytes}), Model(false),
                      ReduceOp::kMean, 6);
  };
  const Outcome one = on(0);
  for (const int64_t bytes : {16, 64, 4096}) {
    const Outcome other = on(bytes);
    EXPECT_EQ(one.losses, other.losses) << bytes;
    for (const auto& [name, value] : one.weights)
      EXPECT_TRUE(value.equal(other.weights.at(name))) << name << ", " << bytes;
  }
}

TEST(ConstraintLawTest, ReplicasKeepTheNormsThatOneKeeps) {
  const auto on = [](const StrategyPtr& strategy) {
    const auto scope = strategy->scope(alone(3));
    const Layer model = Dense(3, {.kernel_constraint = constraints::max_norm(0.3),
                                  .bias_constraint = constraints::non_neg()});
    const auto adam = optim::adam({.learning_rate = 0.1});
    for (const auto& batch : strategy->distribute(points(13).batch(6))) {
      strategy->run(
          [&](const Features& x, const Labels& y) {
            adam.minimize(losses::mean_squared_error(y.tensor().expand({-1, 3}), model(x)));
          },
          batch);
      EXPECT_LE(scope.variable("dense/kernel").square().sum(0).sqrt().max().item<double>(),
                0.3 + 1e-6);
      EXPECT_GE(scope.variable("dense/bias").min().item<double>(), 0);
    }
    return scope.variable("dense/kernel").clone();
  };
  const Tensor one = on(one_device());
  EXPECT_TRUE(at::allclose(on(mirrored({.replicas = 2})), one, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(on(mirrored({.replicas = 3})), one, 1e-4, 1e-5));
}

TEST(RegularizerLawTest, AnEvaluatingLoopMayAskForThePenalty) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const auto scope = strategy->scope(alone(3));
  const Model model(false);
  const auto penalties = strategy->run(
      {.training = false},
      [&](const Features& x) {
        const Tensor none = ReplicaContext::current().regularization_loss();
        (void)model.out(model.hidden(x));
        return at::stack({none, ReplicaContext::current().regularization_loss()});
      },
      to_batch(Element(torch::ones({2, 2}))));
  const Tensor hidden = scope.variable("hidden/kernel"), out = scope.variable("out/kernel");
  const double expected =
      (0.02 * hidden.abs().sum() + 0.03 * hidden.square().sum() + fourth_powers(out))
          .item<double>();
  for (const Tensor& each : penalties) {
    EXPECT_EQ(each[0].item<double>(), 0);
    EXPECT_NEAR(each[1].item<double>(), expected, 1e-6);
  }
}

TEST(RegularizerLawTest, APenaltyThatIsNoNumberUpdatesNothing) {
  for (const StrategyPtr& strategy : {one_device(), mirrored({.replicas = 2})}) {
    const auto scope = strategy->scope(alone(3));
    const Layer model = Dense(1, {.kernel_regularizer = [](const Tensor& value) {
                                return value.sum() * std::numeric_limits<double>::infinity();
                              }});
    const Error error = error_of([&] {
      for (const auto& batch : strategy->distribute(points(4).batch(4))) {
        strategy->run(
            [&](const Features& x, const Labels& y) {
              optim::sgd().minimize(losses::mean_squared_error(y, model(x)));
            },
            batch);
      }
    });
    EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
    EXPECT_THAT(error.message(), HasSubstr("the sum of the regularizers' penalties is"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
