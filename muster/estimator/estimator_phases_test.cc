// Model functions whose optimizers take turns by named phases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using testing::examples;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::latest;
using testing::LocalCluster;
using testing::quiet_config;
using testing::same_bits;

bool of_maker(const VariableSpec& spec) { return spec.name.starts_with("maker/"); }
bool of_critic(const VariableSpec& spec) { return spec.name.starts_with("critic/"); }

const std::vector<TrainingPhase> kCycle{{"critic", 3}, {"maker", 1}};

struct TwoLosses {
  Tensor maker, critic;
};

TwoLosses losses_of(const Features& features, ModelContext& context, bool maker_is_used) {
  auto maker = context.model("maker", [] { return Dense(4); });
  auto critic = context.model("critic", [] { return Dense(1); });
  const Tensor x = features["x"];
  const Tensor made = maker(x);
  return {-critic(made).mean(),
          critic(maker_is_used ? made : made.detach()).mean() - critic(x.narrow(1, 0, 4)).mean()};
}

optim::Optimizer maker_adam(ModelContext& context) {
  return context.optimizer(optim::adam({.learning_rate = 0.05}).named("M"));
}
optim::Optimizer critic_adam(ModelContext& context) {
  return context.optimizer(
      optim::adam({.learning_rate = optim::exponential_decay(
                       {.initial_learning_rate = 0.1, .decay_steps = 3, .decay_rate = 0.5})})
          .named("C"));
}

EstimatorSpec by_phase(const Features& features, const Labels&, Mode mode, ModelContext& context) {
  const TwoLosses losses = losses_of(features, context, false);
  const bool critic = context.phase(kCycle) == "critic";
  if (mode == Mode::kEval) return EstimatorSpec::eval(losses.critic);
  if (critic) {
    return EstimatorSpec::train(losses.critic,
                                critic_adam(context).minimize(losses.critic, of_critic));
  }
  return EstimatorSpec::train(losses.maker, maker_adam(context).minimize(losses.maker, of_maker));
}

// The same, with no word of phases: each step names both optimizers.
EstimatorSpec by_no_step(const Features& features, const Labels&, Mode, ModelContext& context) {
  const TwoLosses losses = losses_of(features, context, false);
  const auto maker = maker_adam(context), critic = critic_adam(context);
  if (context.global_step() % 4 < 3) {
    return EstimatorSpec::train(
        losses.critic,
        optim::group({critic.minimize(losses.critic, of_critic), maker.no_step(of_maker)}));
  }
  return EstimatorSpec::train(losses.maker, optim::group({critic.no_step(of_critic),
                                                          maker.minimize(losses.maker, of_maker)}));
}

Dataset phase_input() { return examples(60).shuffle(60).repeat().global_batch(12); }

TEST(PhasesTest, AreTheStepsOfTheirCycle) {
  TempDirectory temp;
  Estimator phases(by_phase, quiet_config(temp / "phases"));
  Estimator no_step(by_no_step, quiet_config(temp / "no_step"));
  for (Estimator* each : {&phases, &no_step}) each->train(phase_input, {.max_steps = 10});
  const Checkpoint mine = latest(temp / "phases");
  EXPECT_TRUE(same_bits(mine, latest(temp / "no_step")));
  EXPECT_EQ(mine.global_step, 10);
  EXPECT_EQ(mine.tensors.at("C/iterations").item<int64_t>(), 8);
  EXPECT_EQ(mine.tensors.at("M/iterations").item<int64_t>(), 2);
  // Steps of the first phase, whatever the step is.
  EXPECT_EQ(phases.evaluate(phase_input, {.steps = 2}).at("global_step"), 10);
}

TEST(PhasesTest, WorkersComputeWhatOneComputesAndRunsContinueExactly) {
  TempDirectory temp;
  Estimator(by_phase, quiet_config(temp / "one")).train(phase_input, {.max_steps = 14});
  for (const bool in_parts : {false, true}) {
    const std::string directory = temp / (in_parts ? "parts" : "whole");
    // 6: in the middle of a phase.
    for (const int64_t last : in_parts ? std::vector<int64_t>{6, 14} : std::vector<int64_t>{14}) {
      const LocalCluster cluster(2);
      testing::run_ranks(2, [&](int rank) {
        Estimator(by_phase, quiet_config(directory, distribute::multi_worker_mirrored(),
                                         cluster.environment(rank)))
            .train(phase_input, {.max_steps = last});
      });
    }
  }
  EXPECT_TRUE(same_bits(latest(temp / "whole"), latest(temp / "parts")));
  EXPECT_LT(largest_difference(latest(temp / "whole"), latest(temp / "one")), 1e-4);
}

TEST(PhasesTest, MistakesAreNamed) {
  const auto refused = [](const ModelFn& model_fn) {
    TempDirectory temp;
    return error_of([&] {
      Estimator(model_fn, quiet_config(temp / "m")).train(phase_input, {.max_steps = 6});
    });
  };
  const auto with_cycle = [&](const std::vector<TrainingPhase>& cycle) {
    return refused([=](const Features& features, const Labels&, Mode, ModelContext& context) {
             const TwoLosses losses = losses_of(features, context, true);
             (void)context.phase(cycle);
             return EstimatorSpec::train(losses.maker, maker_adam(context).minimize(losses.maker));
           })
        .message();
  };
  EXPECT_THAT(with_cycle({}), HasSubstr("there is no phase"));
  EXPECT_THAT(with_cycle({{"a"}, {"a"}}), HasSubstr("\"a\" is there twice"));
  EXPECT_THAT(with_cycle({{"a", 0}}), HasSubstr("\"a\" has 0 steps"));
  EXPECT_THAT(with_cycle({{""}}), HasSubstr("a phase has no name"));
  EXPECT_THAT(refused([](const Features& features, const Labels&, Mode, ModelContext& context) {
                const TwoLosses losses = losses_of(features, context, true);
                (void)context.phase({{"a", context.global_step() + 1}});
                return EstimatorSpec::train(losses.maker,
                                            maker_adam(context).minimize(losses.maker));
              }).message(),
              AllOf(HasSubstr("{{\"a\", 2}}"), HasSubstr("and before with {{\"a\", 1}}")));
  // Without phases an optimizer is still missed.
  EXPECT_THAT(refused([](const Features& features, const Labels&, Mode, ModelContext& context) {
                const TwoLosses losses = losses_of(features, context, false);
                if (context.global_step() % 2 == 0) {
                  return EstimatorSpec::train(
                      losses.critic, critic_adam(context).minimize(losses.critic, of_critic));
                }
                return EstimatorSpec::train(losses.maker,
                                            maker_adam(context).minimize(losses.maker, of_maker));
              }).message(),
              HasSubstr("the optimizers of the train_op are now: M; when the model was built: C"));
  // A loss that is cut from what its optimizer trains.
  EXPECT_THAT(refused([](const Features& features, const Labels&, Mode, ModelContext& context) {
                const TwoLosses losses = losses_of(features, context, false);
                if (context.phase(kCycle) == "critic") {
                  return EstimatorSpec::train(
                      losses.critic, critic_adam(context).minimize(losses.critic, of_critic));
                }
                return EstimatorSpec::train(losses.critic,
                                            maker_adam(context).minimize(losses.critic, of_maker));
              }).message(),
              HasSubstr("the optimizer M would change nothing: its loss reaches none of its "
                        "variables ('maker/dense/kernel', 'maker/dense/bias')"));
}

}  // namespace
}  // namespace muster::inline v0_1
