// Optimizers in alternation, each with variables of its own: the variables of the others stay
// unchanged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/dense.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

bool is_first(const VariableSpec& spec) { return spec.name.starts_with("first/"); }
bool is_second(const VariableSpec& spec) { return spec.name.starts_with("second/"); }

// Two layers one after the other, and an Adam for each: in odd steps the first trains, in even
// ones the second.
class Alternation {
 public:
  explicit Alternation(const StrategyPtr& strategy, int64_t accumulate_steps = 1)
      : strategy_(strategy), scope_(strategy->scope(options(accumulate_steps))) {}

  // `times` steps in which one of the two trains.
  void train(bool first, int times, bool together = false) {
    for (int i = 0; i < times; ++i) {
      strategy_->run([&] {
        const Tensor x = torch::arange(12).to(kFloat32).view({6, 2}).sin();
        const Tensor loss = losses::mean_squared_error(x.sum(1, true), second_(first_(x)));
        if (together || first) a_.minimize(loss, is_first);
        if (!together && !first) a_.no_step(is_first);
        if (together || !first) b_.minimize(loss, is_second);
        if (!together && first) b_.no_step(is_second);
      });
    }
  }
  std::map<std::string, Tensor> tensors() {
    std::map<std::string, Tensor> copies;
    for (const auto& [name, tensor] : scope_.state().tensors) copies[name] = tensor.clone();
    return copies;
  }

  static ScopeOptions options(int64_t accumulate_steps) {
    ScopeOptions options = alone(3);
    options.accumulate_steps = accumulate_steps;
    return options;
  }

 private:
  const StrategyPtr strategy_;
  Scope scope_;
  const Layer first_ = Dense(3, {.name = "first"}), second_ = Dense(1, {.name = "second"});
  const optim::Optimizer a_ = optim::adam({.learning_rate = 0.1}).named("A"),
                         b_ = optim::adam({.learning_rate = 0.1}).named("B");
};

// Whether all of one optimizer's tensors, and of its variables, are the same.
void expect_same(const std::map<std::string, Tensor>& before,
                 const std::map<std::string, Tensor>& after, const std::string& optimizer,
                 const std::string& layer, bool same) {
  for (const auto& [name, tensor] : before) {
    if (!name.starts_with(optimizer + "/") && !name.starts_with(layer + "/")) continue;
    EXPECT_EQ(tensor.equal(after.at(name)), same) << name;
  }
}

TEST(TurnsLawTest, AnOptimizerThatRestsKeepsWeightsMomentsAndIterations) {
  for (const StrategyPtr& strategy : {one_device(), mirrored({.replicas = 2})}) {
    Alternation alternation(strategy);
    alternation.train(true, 1, /*together=*/true);  // so that both have moments that are not 0
    auto before = alternation.tensors();
    alternation.train(true, 2);
    auto after = alternation.tensors();
    expect_same(before, after, "B", "second", true);
    expect_same(before, after, "A", "first", false);
    alternation.train(false, 3);
    auto last = alternation.tensors();
    expect_same(after, last, "A", "first", true);
    expect_same(after, last, "B", "second", false);
    EXPECT_EQ(last.at("A/iterations").item<int64_t>(), 3);
    EXPECT_EQ(last.at("B/iterations").item<int64_t>(), 4);
  }
}

// The first call may rest one of them: its variables are known by their filter.
TEST(TurnsLawTest, ReplicasTakeTurnsAsOneDoes) {
  const auto trained = [](const StrategyPtr& strategy) {
    Alternation alternation(strategy);
    for (int round = 0; round < 4; ++round) {
      alternation.train(true, 2);
      alternation.train(false, 1);
    }
    return alternation.tensors();
  };
  const auto one = trained(one_device()), two = trained(mirrored({.replicas = 2}));
  for (const auto& [name, tensor] : one)
    EXPECT_TRUE(torch::allclose(tensor.to(kFloat64), two.at(name).to(kFloat64), 1e-4, 1e-5))
        << name;
}

TEST(TurnsLawTest, MistakesSayWhatToWrite) {
  const auto refused = [](const std::function<void(const Tensor& loss, int call)>& step,
                          int64_t accumulate_steps = 1) {
    const auto strategy = one_device();
    const auto scope = strategy->scope(Alternation::options(accumulate_steps));
    const Layer first = Dense(3, {.name = "first"}), second = Dense(1, {.name = "second"});
    int call = 0;
    return error_of([&] {
      for (; call < 4; ++call)
        strategy->run([&] { step(second(first(torch::ones({2, 2}))).mean(), call); });
    });
  };
  const optim::Optimizer a = optim::adam().named("A"), b = optim::adam().named("B");
  EXPECT_THAT(refused([&](const Tensor& loss, int call) {
                a.minimize(loss, call < 2 ? is_first : is_second);
                b.minimize(loss, call < 2 ? is_second : is_first);
              }).hint(),
              HasSubstr("no_step(filter)"));
  EXPECT_THAT(refused([&](const Tensor& loss, int call) {
                call < 2 ? a.minimize(loss, is_first) : a.no_step(is_first);
                b.no_step(is_second);
              }).message(),
              HasSubstr("all of them rest"));
  EXPECT_THAT(refused(
                  [&](const Tensor& loss, int call) {
                    call % 2 == 0 ? a.minimize(loss, is_first) : a.no_step(is_first);
                    b.minimize(loss, is_second);
                  },
                  2)
                  .message(),
              HasSubstr("other optimizers rest"));
  EXPECT_THAT(refused([&](const Tensor& loss, int) {
                a.minimize(loss, is_first);
                b.minimize(loss, [](const VariableSpec& spec) { return spec.name == "secnd"; });
              }).message(),
              AllOf(HasSubstr("accepts no variable"), HasSubstr("first/kernel, first/bias")));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
