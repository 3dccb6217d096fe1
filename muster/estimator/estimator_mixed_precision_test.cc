// A model function in mixed precision, and an Estimator of float32 that reads its checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/cpu_features.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/mixed_precision.h"
#include "muster/layers/testing/allow_slow_bfloat16.h"

namespace muster::inline v0_1 {
namespace {

using testing::examples;
using ::testing::HasSubstr;
using testing::latest;
using testing::quiet_config;
using testing::same_bits;

// The policy decides the dtype in which the model computes, and nothing else.
Layer classifier(const std::string& policy) {
  return mixed_precision(policy,
                         Sequential({Dense(16, {.activation = activations::relu}),
                                     BatchNormalization({.synchronized = true}), Dense(2)}));
}

// params: "policy".
EstimatorSpec mixed_model_fn(const Features& features, const Labels& labels, Mode mode,
                             ModelContext& context) {
  auto model =
      context.model("net", [&] { return classifier(context.param<std::string>("policy")); });
  const Tensor logits = model(features["x"]);
  const Tensor loss = testing::loss_of(logits, labels);
  if (mode == Mode::kEval)
    return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, logits.argmax(-1))}});
  return EstimatorSpec::train(loss,
                              context.optimizer(testing::make_optimizer("adam")).minimize(loss));
}

Estimator mixed_estimator(const std::string& model_dir, const std::string& policy,
                          const distribute::StrategyPtr& strategy = nullptr) {
  return Estimator(mixed_model_fn, quiet_config(model_dir, strategy), {{"policy", policy}});
}

InputFn sixty_examples() {
  return [] { return examples(60).shuffle(60).repeat().global_batch(12); };
}

TEST(MixedPrecisionEstimator, TrainsAndIsReadInFloat32) {
  const testing::AllowSlowBfloat16 anyway;
  TempDirectory directory;
  const InputFn all = [] { return examples(60).batch(60); };
  for (const int replicas : {1, 2}) {
    const std::string mixed = directory / ("mixed" + std::to_string(replicas));
    const std::string wide = directory / ("wide" + std::to_string(replicas));
    const auto strategy = distribute::mirrored({.replicas = replicas});
    mixed_estimator(mixed, "bfloat16", strategy).train(sixty_examples(), {.max_steps = 60});
    mixed_estimator(wide, "float32", strategy).train(sixty_examples(), {.max_steps = 60});
    for (const auto& [name, value] : latest(mixed).tensors)
      EXPECT_NE(value.scalar_type(), kBFloat16) << name;
    const double expected = mixed_estimator(wide, "float32").evaluate(all).at("loss");
    const double inside = mixed_estimator(mixed, "bfloat16").evaluate(all).at("loss");
    const double outside = mixed_estimator(mixed, "float32").evaluate(all).at("loss");
    EXPECT_LT(expected, 0.5);
    EXPECT_NE(inside, outside);
    EXPECT_NEAR(inside / outside, 1, 0.05);
    EXPECT_NEAR(outside / expected, 1, 0.1);
    // The other way round, and on.
    mixed_estimator(wide, "bfloat16", strategy).train(sixty_examples(), {.max_steps = 80});
    EXPECT_LT(mixed_estimator(wide, "float32").evaluate(all).at("loss"), expected);
  }
}

TEST(MixedPrecisionEstimator, ResumesBitForBit) {
  const testing::AllowSlowBfloat16 anyway;
  TempDirectory directory;
  const auto strategy = distribute::mirrored({.replicas = 2});
  mixed_estimator(directory / "whole", "bfloat16", strategy)
      .train(sixty_examples(), {.max_steps = 9});
  for (const int64_t steps : {4, 9}) {
    mixed_estimator(directory / "parts", "bfloat16", strategy)
        .train(sixty_examples(), {.max_steps = steps});
  }
  EXPECT_TRUE(same_bits(latest(directory / "parts"), latest(directory / "whole")));
}

TEST(MixedPrecisionEstimator, RefusesAMachineWithoutInstructionsBeforeItTrains) {
  // Such a machine has nothing to refuse: the other tests train on it.
  if (cpu_features().multiplies_bfloat16())
    GTEST_SKIP() << "this machine multiplies numbers of bfloat16";
  TempDirectory directory;
  const Error error = error_of([&] {
    mixed_estimator(directory / "model", "bfloat16").train(sixty_examples(), {.max_steps = 1});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("this processor has no instructions for it"));
}

}  // namespace
}  // namespace muster::inline v0_1
