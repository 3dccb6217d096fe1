#include "muster/optim/loss_scaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/optim/internal/test_errors.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {
namespace {

using testing::message_of;

TEST(LossScaling, TheScaleGrowsAfterGoodStepsAndHalvesAfterABadOne) {
  const LossScalingOptions options{.dynamic_growth_steps = 3};
  LossScale scale{options.initial_scale};
  EXPECT_EQ(scale.scale, 32768);
  scale = next_loss_scale(options, scale, true);
  scale = next_loss_scale(options, scale, true);
  EXPECT_EQ(scale, (LossScale{32768, 2}));
  scale = next_loss_scale(options, scale, true);
  EXPECT_EQ(scale, (LossScale{65536, 0}));
  scale = next_loss_scale(options, next_loss_scale(options, scale, true), false);
  EXPECT_EQ(scale, (LossScale{32768, 0})) << "a bad step begins the count anew";
  EXPECT_EQ(next_loss_scale(options, {1.5, 2}, false), (LossScale{1, 0}));
  EXPECT_EQ(next_loss_scale(options, {1, 0}, false), (LossScale{1, 0}));
  const double largest = std::ldexp(1.0, 127);  // twice that is not float32
  EXPECT_EQ(next_loss_scale(options, {largest, 2}, true), (LossScale{largest, 0}));
}

TEST(LossScaling, IsAnOptionOfAnOptimizer) {
  EXPECT_FALSE(sgd().loss_scaling());
  const Optimizer dynamic = loss_scaling(clip_by_value(sgd(), 1)).named("s");
  EXPECT_EQ(dynamic.loss_scaling(), LossScalingOptions{});
  EXPECT_EQ(dynamic.describe(),
            "s: SGD(learning_rate=0.01, momentum=0, nesterov=false), clip_by_value(1), "
            "loss_scaling(32768, dynamic_growth_steps=2000)");
  EXPECT_TRUE(loss_scaling(sgd(), {.dynamic = false, .initial_scale = 0.5})
                  .describe()
                  .ends_with(", loss_scaling(0.5)"));
}

TEST(LossScaling, RefusedArgumentsNameThemselves) {
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const std::string text = message_of([&] { loss_scaling(sgd(), {.initial_scale = bad}); });
    EXPECT_TRUE(text.ends_with("initial_scale must be finite and above 0")) << text;
  }
  EXPECT_EQ(message_of([] { loss_scaling(sgd(), {.initial_scale = 0.5}); }),
            "loss_scaling: initial_scale is 0.5 | initial_scale must be at least 1 when it is "
            "dynamic");
  EXPECT_EQ(message_of([] { loss_scaling(sgd(), {.dynamic_growth_steps = 0}); }),
            "loss_scaling: dynamic_growth_steps is 0 | dynamic_growth_steps must be at least 1");
  EXPECT_EQ(message_of([] { loss_scaling(loss_scaling(sgd())); }),
            "loss_scaling: the loss of the optimizer SGD is scaled already | ");
}

}  // namespace
}  // namespace muster::inline v0_1::optim
