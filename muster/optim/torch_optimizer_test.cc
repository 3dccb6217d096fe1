// LibTorch's own classes, on the same gradients, give the same bits.
#include "muster/optim/torch_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "muster/base/error_of.h"
#include "muster/optim/schedules.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTorchSize = 7;
constexpr int kTorchSteps = 5;

Tensor torch_begin() { return torch::arange(kTorchSize).to(kFloat32).mul(0.7).sin(); }
Tensor torch_gradient(int step) {
  return torch::arange(kTorchSize).to(kFloat32).mul(1.3 + step).cos();
}

Segment begun_torch(const Optimizer& optimizer) {
  Segment segment{torch_begin(), torch::empty({kTorchSize}), {}};
  const VariableSpec spec{.name = "w", .shape = {kTorchSize}};
  for (const SlotSpec& slot : optimizer.rule().slots_of(spec))
    segment.slots.push_back(
        torch::full(slot.shape.value_or(Shape{kTorchSize}), slot.initial_value));
  for (Tensor& slot : segment.slots) slot = slot.view({-1});
  return segment;
}

template <typename Class, typename Options>
void expect_bits_of(const Options& options) {
  const Optimizer mine = torch_optimizer(options);
  SCOPED_TRACE(mine.describe());
  Segment segment = begun_torch(mine);
  const Tensor weights = torch_begin().set_requires_grad(true);
  Class theirs({weights}, options);
  for (int step = 0; step < kTorchSteps; ++step) {
    segment.gradient.copy_(torch_gradient(step));
    mine.rule().update(segment, step);
    weights.mutable_grad() = torch_gradient(step);
    theirs.step();
    EXPECT_TRUE(segment.weights.equal(weights.detach())) << "step " << step;
  }
  EXPECT_FALSE(segment.weights.equal(torch_begin()));
  EXPECT_EQ(segment.slots[0].item<double>(), kTorchSteps);
}

TEST(TorchOptimizer, MakesTheStepsOfItsClass) {
  namespace to = torch::optim;
  expect_bits_of<to::Adam>(to::AdamOptions(0.1));
  expect_bits_of<to::Adam>(to::AdamOptions(0.1).amsgrad(true).weight_decay(0.1).betas({0.8, 0.9}));
  expect_bits_of<to::AdamW>(to::AdamWOptions(0.1).weight_decay(0.2));
  expect_bits_of<to::SGD>(to::SGDOptions(0.1));
  expect_bits_of<to::SGD>(to::SGDOptions(0.1).momentum(0.9).dampening(0.3).weight_decay(0.1));
  expect_bits_of<to::SGD>(to::SGDOptions(0.1).momentum(0.9).nesterov(true));
  expect_bits_of<to::RMSprop>(to::RMSpropOptions(0.1));
  expect_bits_of<to::RMSprop>(to::RMSpropOptions(0.1).momentum(0.9).centered(true));
  expect_bits_of<to::Adagrad>(to::AdagradOptions(0.1).lr_decay(0.1).initial_accumulator_value(0.2));
}

// Its state is in the slots alone: an update may be made in another process.
TEST(TorchOptimizer, ContinuesFromItsSlots) {
  const torch::optim::AdamOptions options = torch::optim::AdamOptions(0.1).amsgrad(true);
  const Optimizer once = torch_optimizer(options), again = torch_optimizer(options);
  Segment whole = begun_torch(once), parts = begun_torch(once);
  for (int step = 0; step < kTorchSteps; ++step) {
    whole.gradient.copy_(torch_gradient(step));
    once.rule().update(whole, step);
    Segment copied{parts.weights.clone(), torch_gradient(step), {}};
    for (const Tensor& slot : parts.slots) copied.slots.push_back(slot.clone());
    again.rule().update(copied, step);
    parts = copied;
  }
  EXPECT_TRUE(whole.weights.equal(parts.weights));
}

TEST(TorchOptimizer, TakesAScheduleOfItsOwnUpdates) {
  const LearningRate schedule("halves", [](int64_t step) { return step < 2 ? 0.1 : 0.05; });
  const Optimizer mine = torch_optimizer(torch::optim::SGDOptions(7), schedule);
  Segment segment = begun_torch(mine);
  Tensor expected = torch_begin();
  for (int step = 0; step < kTorchSteps; ++step) {
    segment.gradient.copy_(torch_gradient(step));
    mine.rule().update(segment, step);
    expected.add_(torch_gradient(step), -(step < 2 ? 0.1 : 0.05));
  }
  EXPECT_TRUE(segment.weights.equal(expected));
}

TEST(TorchOptimizer, NamesWhatItDoesNotDo) {
  EXPECT_THAT(error_of([] { (void)torch_optimizer(torch::optim::LBFGSOptions(0.1)); }).message(),
              HasSubstr("not supported: torch::optim::LBFGS"));
  EXPECT_THAT(error_of([] {
                (void)torch_optimizer(torch::optim::SGDOptions(0.1).nesterov(true));
              }).message(),
              HasSubstr("Nesterov momentum requires"));
  const Optimizer adam = torch_optimizer(torch::optim::AdamOptions(0.1));
  EXPECT_THAT(error_of([&] {
                (void)adam.rule().slots_of({.name = "table", .shape = {9, 2}, .row_sparse = true});
              }).message(),
              HasSubstr("row-sparse variable table"));
}

}  // namespace
}  // namespace muster::inline v0_1::optim
