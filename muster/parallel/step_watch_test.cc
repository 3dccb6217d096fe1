#include "muster/parallel/internal/step_watch.h"

#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// Whether the watch sees a step of SGD with this gradient on a weight of ones of its layout.
bool sees_step(const Tensor& gradient) {
  Tensor weight = torch::ones_like(gradient).requires_grad_();
  weight.mutable_grad() = gradient;
  StepWatch watch;
  watch.note(0, weight);
  watch.note(0, weight);
  EXPECT_FALSE(watch.changed());
  torch::optim::SGD({weight}, 0.1).step();
  return watch.changed();
}

TEST(StepWatchTest, SeesAStepWhateverNumbersItMoves) {
  const auto only = [](int64_t numel, int64_t index) {
    Tensor gradient = torch::zeros({numel});
    gradient[index] = 1e-3;
    return gradient;
  };
  EXPECT_TRUE(sees_step(only(5, 0)));
  EXPECT_TRUE(sees_step(only(5, 4)));
  EXPECT_TRUE(sees_step(only(5000, 3999)));
  // A number that rounding keeps as it is, before one that moves.
  Tensor gradient = only(100, 70);
  gradient[3] = 1e-12;
  EXPECT_TRUE(sees_step(gradient));
  // Where the order of memory is another one.
  gradient = torch::zeros({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  gradient[1][2][3][0] = 1;
  EXPECT_TRUE(sees_step(gradient));
  EXPECT_TRUE(sees_step(only(12, 7).view({3, 4}).t()));
  EXPECT_TRUE(sees_step(only(9, 8).to(kFloat64)));
  EXPECT_TRUE(sees_step((only(9, 8) * 1e3).to(kBFloat16)));
  EXPECT_FALSE(sees_step(torch::zeros({3000})));
}

TEST(StepWatchTest, WatchesNothingAfterClear) {
  StepWatch watch;
  EXPECT_FALSE(watch.changed());
  Tensor weight = torch::ones({3}).requires_grad_();
  watch.note(0, weight);  // without a gradient
  weight.mutable_grad() = torch::ones({3});
  watch.note(1, weight);
  watch.clear();
  torch::optim::SGD({weight}, 0.1).step();
  EXPECT_FALSE(watch.changed());
}

}  // namespace
}  // namespace muster::inline v0_1::internal
