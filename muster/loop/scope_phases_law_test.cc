// Calls of run() that each name some of the optimizers: the others make no step, and what a later
// call adds to the model leaves the rest as it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/manager.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/dense.h"
#include "muster/layers/sequential.h"
#include "muster/loop/replica_context.h"
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

bool of_maker(const VariableSpec& spec) { return spec.name.starts_with("maker"); }
bool of_judge(const VariableSpec& spec) { return spec.name.starts_with("judge"); }

// Its variables are called "<name>_1/kernel" and so on.
Layer normed(const std::string& name, int64_t units) {
  return Sequential({Dense(4, {.name = name + "_1"}), BatchNormalization({.name = name + "_norm"}),
                     Dense(units, {.name = name + "_2"})});
}

// How a program says that one of the two optimizers makes no step.
enum class Says { kNothing, kNoStep };

// A maker of points and a judge of them, as in a GAN.
class Pair {
 public:
  explicit Pair(const StrategyPtr& strategy, Says says = Says::kNothing)
      : strategy_(strategy), scope_(strategy->scope(alone(3))), says_(says) {}

  void train_judge() {
    strategy_->run([&] {
      const Tensor made = maker_(noise()).detach();
      judge_adam_.minimize(judge_(made).mean() - judge_(real()).mean(), of_judge);
      if (says_ == Says::kNoStep) maker_adam_.no_step(of_maker);
    });
  }
  void train_maker() {
    strategy_->run([&] {
      if (says_ == Says::kNoStep) judge_adam_.no_step(of_judge);
      maker_adam_.minimize(-judge_(maker_(noise())).mean(), of_maker);
    });
  }
  void rounds(int count, int judge_steps = 2) {
    for (int round = 0; round < count; ++round) {
      for (int i = 0; i < judge_steps; ++i) train_judge();
      train_maker();
    }
  }
  const Scope& scope() const { return scope_; }
  std::map<std::string, Tensor> tensors() const {
    std::map<std::string, Tensor> copies;
    for (const auto& [name, tensor] : scope_.state().tensors) copies[name] = tensor.clone();
    return copies;
  }

 private:
  // The same for each replica, so that several compute what one does.
  static Tensor noise() { return torch::arange(12).to(kFloat32).view({6, 2}).sin(); }
  static Tensor real() { return torch::arange(12).to(kFloat32).view({6, 2}).cos(); }

  const StrategyPtr strategy_;
  Scope scope_;
  const Says says_;
  const Layer maker_ = normed("maker", 2), judge_ = normed("judge", 1);
  const optim::Optimizer maker_adam_ = optim::adam({.learning_rate = 0.05}).named("M"),
                         judge_adam_ = optim::adam({.learning_rate = optim::exponential_decay(
                                                        {.initial_learning_rate = 0.1,
                                                         .decay_steps = 2,
                                                         .decay_rate = 0.5})})
                                           .named("J");
};

void expect_equal(const std::map<std::string, Tensor>& mine,
                  const std::map<std::string, Tensor>& theirs) {
  ASSERT_EQ(mine.size(), theirs.size());
  for (const auto& [name, tensor] : mine) EXPECT_TRUE(tensor.equal(theirs.at(name))) << name;
}

TEST(PhasesLawTest, WhatACallDoesNotNameRests) {
  for (const StrategyPtr& strategy : {one_device(), mirrored({.replicas = 2})}) {
    std::map<std::string, Tensor> short_form, long_form;
    {
      Pair pair(strategy);
      pair.rounds(4);
      short_form = pair.tensors();
      EXPECT_EQ(pair.scope().step(), 12);
    }
    {
      Pair pair(strategy, Says::kNoStep);
      pair.rounds(4);
      long_form = pair.tensors();
    }
    expect_equal(short_form, long_form);
    EXPECT_EQ(short_form.at("J/iterations").item<int64_t>(), 8);
    EXPECT_EQ(short_form.at("M/iterations").item<int64_t>(), 4);
  }
}

TEST(PhasesLawTest, ReplicasComputeWhatOneComputes) {
  const auto trained = [](const StrategyPtr& strategy) {
    Pair pair(strategy);
    pair.rounds(3);
    return pair.tensors();
  };
  const auto one = trained(one_device()), two = trained(mirrored({.replicas = 2}));
  for (const auto& [name, tensor] : one) {
    if (name.find("moving") != std::string::npos) continue;  // each replica has its own
    EXPECT_TRUE(torch::allclose(tensor.to(kFloat64), two.at(name).to(kFloat64), 1e-4, 1e-5))
        << name;
  }
}

// The maker is first trained after restore(), and saved once more before that.
TEST(PhasesLawTest, ContinuesExactlyWhereverItStopped) {
  for (const StrategyPtr& strategy : {one_device(), mirrored({.replicas = 2})}) {
    std::map<std::string, Tensor> whole, parts;
    {
      Pair pair(strategy);
      pair.rounds(3);
      whole = pair.tensors();
    }
    TempDirectory temp;
    {
      Pair pair(strategy);
      pair.rounds(1);
      pair.scope().save(temp.path());
    }
    {
      Pair pair(strategy);
      ASSERT_TRUE(pair.scope().restore(temp.path()));
      pair.train_judge();
      pair.scope().save(temp.path());
    }
    {
      Pair pair(strategy);
      ASSERT_TRUE(pair.scope().restore(temp.path()));
      pair.train_judge();
      pair.train_maker();
      pair.rounds(1);
      EXPECT_EQ(pair.scope().step(), 9);
      parts = pair.tensors();
    }
    expect_equal(whole, parts);
  }
}

// Two parts of a model that know nothing of each other, and their statistics.
TEST(PhasesLawTest, ALaterCallMayAddVariables) {
  for (const StrategyPtr& strategy : {one_device(), mirrored({.replicas = 2})}) {
    const auto trained = [&](bool with_second) {
      const auto scope = strategy->scope(alone(3));
      const Layer first = normed("maker", 3), second = normed("judge", 3);
      const auto a = optim::adam({.learning_rate = 0.1}).named("M"),
                 b = optim::sgd({.learning_rate = 0.1, .momentum = 0.9}).named("J");
      const Tensor x = torch::arange(12).to(kFloat32).view({6, 2}).sin();
      int calls = 0;
      for (int step = 0; step < 3; ++step) {
        strategy->run([&] { a.minimize(first(x).square().mean(), of_maker); });
        if (with_second) {
          strategy->run([&] {
            if (ReplicaContext::current().replica_id() == 0) ++calls;
            b.minimize((second(x) - 1).square().mean(), of_judge);
          });
        }
      }
      // Its first call makes the variables, and is repeated.
      EXPECT_EQ(calls, with_second ? 4 : 0);
      std::map<std::string, Tensor> tensors;
      for (const auto& [name, tensor] : scope.state().tensors) tensors[name] = tensor.clone();
      return tensors;
    };
    const auto alone_ = trained(false), both = trained(true);
    EXPECT_EQ(both.at("J/iterations").item<int64_t>(), 3);
    EXPECT_GT(both.at("J/momentum/judge_1/kernel").abs().max().item<double>(), 0);
    for (const auto& [name, tensor] : alone_) EXPECT_TRUE(tensor.equal(both.at(name))) << name;
  }
}

TEST(PhasesLawTest, MistakesAreNamed) {
  const auto strategy = one_device();
  const optim::Optimizer a = optim::adam().named("M"), b = optim::adam().named("J");
  const Tensor x = torch::ones({2, 2});
  const auto refused =
      [&](const std::function<void(const Layer& first, const Layer& second)>& then) {
        const auto scope = strategy->scope(alone());
        const Layer first = Dense(2, {.name = "maker"}), second = Dense(1, {.name = "judge"});
        strategy->run([&] { a.minimize(first(x).mean(), of_maker); });
        return error_of([&] { strategy->run([&] { then(first, second); }); });
      };
  // A variable that no optimizer would train.
  EXPECT_THAT(refused([&](const Layer& first, const Layer& second) {
                a.minimize(second(first(x)).mean(), of_maker);
              }).message(),
              AllOf(HasSubstr("the variable judge/kernel"), HasSubstr("names no new optimizer")));
  // The first one has no filter, and would train all.
  EXPECT_THAT(refused([&](const Layer& first, const Layer& second) {
                b.minimize(second(first(x)).mean());
              }).message(),
              HasSubstr("claimed by two entries of the train_op (M and J)"));
  // A loss that was cut from the variables of its optimizer.
  const Error cut = refused([&](const Layer& first, const Layer& second) {
    b.minimize(first(x).mean() + second(x).detach().mean(), of_judge);
  });
  EXPECT_EQ(cut.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(cut.message(),
              HasSubstr("the optimizer J would change nothing: its loss reaches none "
                        "of its variables ('judge/kernel', 'judge/bias')"));
  EXPECT_THAT(cut.hint(), HasSubstr("no_step(filter)"));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
