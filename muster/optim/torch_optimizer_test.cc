// LibTorch's own classes, on the same gradients, give the same bits.
#include "muster/optim/torch_optimizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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

// Lion, whose state also has a number that is no count of steps.
struct LionOptions : torch::optim::OptimizerCloneableOptions<LionOptions> {
  explicit LionOptions(double rate) : rate_(rate) {}
  double get_lr() const override { return rate_; }
  void set_lr(double rate) override { rate_ = rate; }

 private:
  double rate_;
};

struct LionState : torch::optim::OptimizerCloneableParamState<LionState> {
  Tensor momentum{};
  Tensor largest{};  // norm of a gradient so far
};

// LibTorch finds the state of a parameter by its address, as a text until version 2.2.
template <typename Key>
Key key_in(const Tensor& parameter) {
  if constexpr (std::is_same_v<Key, std::string>) {
    return fmt::format("{}", fmt::ptr(parameter.unsafeGetTensorImpl()));
  } else {
    return parameter.unsafeGetTensorImpl();
  }
}

class Lion : public torch::optim::Optimizer {
 public:
  Lion(std::vector<Tensor> parameters, const LionOptions& options)
      : Optimizer(std::move(parameters), std::make_unique<LionOptions>(options)) {}

  Tensor step(LossClosure closure = nullptr) override {
    const torch::NoGradGuard no_grad;
    for (auto& group : param_groups()) {
      for (const Tensor& parameter : group.params()) {
        auto& slot = state_[key_in<std::decay_t<decltype(state_)>::key_type>(parameter)];
        if (slot == nullptr) {
          auto begun = std::make_unique<LionState>();
          begun->momentum = torch::zeros_like(parameter);
          begun->largest = torch::zeros({});
          slot = std::move(begun);
        }
        auto& state = static_cast<LionState&>(*slot);
        const Tensor& gradient = parameter.grad();
        state.largest = at::maximum(state.largest, gradient.norm());
        Tensor(parameter).sub_(
            (state.momentum * 0.9 + gradient * 0.1).sign().div(1 + state.largest),
            group.options().get_lr());
        state.momentum.mul_(0.99).add_(gradient, 0.01);
      }
    }
    return closure ? closure() : Tensor();
  }
};

TorchOptimizerClass lion_class() {
  return {.name = "Lion",
          .make =
              [](const Tensor& parameter) {
                return std::make_unique<Lion>(std::vector<Tensor>{parameter}, LionOptions(0.1));
              },
          .slots = {{.name = "momentum"}, {.name = "largest", .shape = Shape{}}},
          .tensors_of =
              [](const torch::optim::OptimizerParamState& state) {
                const auto& lion = static_cast<const LionState&>(state);
                return std::vector<Tensor>{lion.momentum, lion.largest};
              },
          .state_of =
              [](const std::vector<Tensor>& tensors, int64_t) {
                auto state = std::make_unique<LionState>();
                state->momentum = tensors[0];
                state->largest = tensors[1];
                return state;
              }};
}

TEST(TorchOptimizer, AClassOfOnesOwnMakesItsSteps) {
  const Optimizer mine = torch_optimizer(lion_class());
  EXPECT_EQ(mine.rule().describe(), "Lion(lr=0.1)");
  Segment segment = begun_torch(mine);
  const VariableSpec spec{.name = "w", .shape = {kTorchSize, 1}};  // the class sees this shape
  segment.variable = &spec;
  const Tensor weights = torch_begin().view({kTorchSize, 1});
  Lion theirs({weights}, LionOptions(0.1));
  for (int step = 0; step < kTorchSteps; ++step) {
    segment.gradient.copy_(torch_gradient(step));
    mine.rule().update(segment, step);
    weights.mutable_grad() = torch_gradient(step).view({kTorchSize, 1});
    theirs.step();
    EXPECT_TRUE(segment.weights.equal(weights.flatten())) << "step " << step;
  }
  EXPECT_FALSE(segment.weights.equal(torch_begin()));
}

TEST(TorchOptimizer, AClassOfOnesOwnThatLosesStateIsRefused) {
  TorchOptimizerClass forgets = lion_class();
  forgets.slots.pop_back();
  forgets.tensors_of = [](const torch::optim::OptimizerParamState& state) {
    return std::vector<Tensor>{static_cast<const LionState&>(state).momentum};
  };
  forgets.state_of = [](const std::vector<Tensor>& tensors, int64_t) {
    auto state = std::make_unique<LionState>();
    state->momentum = tensors[0];
    state->largest = torch::zeros({});
    return state;
  };
  const Error error = error_of([&] { (void)torch_optimizer(forgets); });
  EXPECT_THAT(error.message(), HasSubstr("Lion makes other steps from the state"));
  EXPECT_THAT(error.hint(), HasSubstr("list every tensor and number of its state in slots"));

  const auto said = [](const auto& change) {
    TorchOptimizerClass of = lion_class();
    change(of);
    return error_of([&] { (void)torch_optimizer(of); }).message();
  };
  EXPECT_THAT(said([](auto& of) { of.name = "a/b"; }), HasSubstr("the name of the class"));
  EXPECT_THAT(said([](auto& of) { of.slots[0].name = "step"; }),
              HasSubstr("a slot named \"step\""));
  EXPECT_THAT(said([](auto& of) { of.state_of = nullptr; }),
              HasSubstr("no function tensors_of or"));
  EXPECT_THAT(said([](auto& of) { of.make = [](const Tensor&) { return nullptr; }; }),
              HasSubstr("gave no optimizer of one parameter"));
  EXPECT_THAT(
      said([](auto& of) { of.tensors_of = [](const auto&) { return std::vector<Tensor>{}; }; }),
      HasSubstr("gave 0 tensors for 2 slots"));
  // A class that computes the loss in a step.
  EXPECT_THAT(said([](auto& of) {
                of.name = "LBFGS";
                of.make = [](const Tensor& parameter) {
                  return std::make_unique<torch::optim::LBFGS>(std::vector<Tensor>{parameter},
                                                               torch::optim::LBFGSOptions(0.1));
                };
              }),
              HasSubstr("not supported: torch_optimizer() with LBFGS, which failed in a trial"));
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
