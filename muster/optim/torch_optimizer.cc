#include "muster/optim/torch_optimizer.h"

#include <fmt/format.h>
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

#include "muster/base/error.h"
#include "muster/optim/internal/scheduled_rule.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/libtorch_error.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

// A tensor of a state, and the slot that holds it between updates.
template <typename State>
struct TorchSlot {
  std::string name{};
  const Tensor& (State::*get)() const;
  void (*set)(State& state, const Tensor& value);
};

// What Muster needs of a class of torch::optim: its state, and which of it the options use.
template <typename Options>
struct TorchKind;

template <typename State, typename Options>
std::vector<TorchSlot<State>> adam_slots(const Options& options) {
  std::vector<TorchSlot<State>> slots{
      {"exp_avg", &State::exp_avg, [](State& s, const Tensor& v) { s.exp_avg(v); }},
      {"exp_avg_sq", &State::exp_avg_sq, [](State& s, const Tensor& v) { s.exp_avg_sq(v); }}};
  if (options.amsgrad()) {
    slots.push_back({"max_exp_avg_sq", &State::max_exp_avg_sq,
                     [](State& s, const Tensor& v) { s.max_exp_avg_sq(v); }});
  }
  return slots;
}

template <typename Options>
std::string adam_text(const Options& options) {
  const auto [beta_1, beta_2] = options.betas();
  return fmt::format("betas=({}, {}), eps={}, weight_decay={}, amsgrad={}", beta_1, beta_2,
                     options.eps(), options.weight_decay(), options.amsgrad());
}

template <>
struct TorchKind<torch::optim::AdamOptions> {
  using Class = torch::optim::Adam;
  using State = torch::optim::AdamParamState;
  static constexpr const char* kName = "Adam";
  static auto slots(const torch::optim::AdamOptions& o) { return adam_slots<State>(o); }
  static std::string text(const torch::optim::AdamOptions& o) { return adam_text(o); }
};

template <>
struct TorchKind<torch::optim::AdamWOptions> {
  using Class = torch::optim::AdamW;
  using State = torch::optim::AdamWParamState;
  static constexpr const char* kName = "AdamW";
  static auto slots(const torch::optim::AdamWOptions& o) { return adam_slots<State>(o); }
  static std::string text(const torch::optim::AdamWOptions& o) { return adam_text(o); }
};

template <>
struct TorchKind<torch::optim::SGDOptions> {
  using Class = torch::optim::SGD;
  using State = torch::optim::SGDParamState;
  static constexpr const char* kName = "SGD";
  static std::vector<TorchSlot<State>> slots(const torch::optim::SGDOptions& o) {
    if (o.momentum() == 0) return {};
    return {{"momentum_buffer", &State::momentum_buffer,
             [](State& s, const Tensor& v) { s.momentum_buffer(v); }}};
  }
  static std::string text(const torch::optim::SGDOptions& o) {
    return fmt::format("momentum={}, dampening={}, weight_decay={}, nesterov={}", o.momentum(),
                       o.dampening(), o.weight_decay(), o.nesterov());
  }
};

template <>
struct TorchKind<torch::optim::RMSpropOptions> {
  using Class = torch::optim::RMSprop;
  using State = torch::optim::RMSpropParamState;
  static constexpr const char* kName = "RMSprop";
  static std::vector<TorchSlot<State>> slots(const torch::optim::RMSpropOptions& o) {
    std::vector<TorchSlot<State>> slots{
        {"square_avg", &State::square_avg, [](State& s, const Tensor& v) { s.square_avg(v); }}};
    if (o.momentum() > 0) {
      slots.push_back({"momentum_buffer", &State::momentum_buffer,
                       [](State& s, const Tensor& v) { s.momentum_buffer(v); }});
    }
    if (o.centered()) {
      slots.push_back(
          {"grad_avg", &State::grad_avg, [](State& s, const Tensor& v) { s.grad_avg(v); }});
    }
    return slots;
  }
  static std::string text(const torch::optim::RMSpropOptions& o) {
    return fmt::format("alpha={}, eps={}, weight_decay={}, momentum={}, centered={}", o.alpha(),
                       o.eps(), o.weight_decay(), o.momentum(), o.centered());
  }
};

template <>
struct TorchKind<torch::optim::AdagradOptions> {
  using Class = torch::optim::Adagrad;
  using State = torch::optim::AdagradParamState;
  static constexpr const char* kName = "Adagrad";
  static std::vector<TorchSlot<State>> slots(const torch::optim::AdagradOptions&) {
    return {{"sum", &State::sum, [](State& s, const Tensor& v) { s.sum(v); }}};
  }
  static std::string text(const torch::optim::AdagradOptions& o) {
    return fmt::format("lr_decay={}, weight_decay={}, initial_accumulator_value={}, eps={}",
                       o.lr_decay(), o.weight_decay(), o.initial_accumulator_value(), o.eps());
  }
};

// LibTorch finds the state of a parameter by its address, as a text until version 2.2.
template <typename Key>
Key key_of(const Tensor& parameter) {
  if constexpr (std::is_same_v<Key, std::string>) {
    return c10::guts::to_string(parameter.unsafeGetTensorImpl());
  } else {
    return parameter.unsafeGetTensorImpl();
  }
}

template <typename Options>
class TorchRule final : public internal::ScheduledRule {
  using Kind = TorchKind<Options>;
  using State = typename Kind::State;

 public:
  TorchRule(const Options& options, const std::optional<LearningRate>& learning_rate)
      : ScheduledRule("torch_optimizer", Kind::kName,
                      learning_rate ? *learning_rate : LearningRate(options.lr())),
        options_(options),
        slots_(Kind::slots(options)) {
    try {
      (void)typename Kind::Class({torch::zeros({1})}, options);
    } catch (const c10::Error& error) {
      throw invalid_argument(fmt::format("torch_optimizer: {}", text_of(error)),
                             "the options are those of torch::optim");
    }
  }

  std::vector<SlotSpec> slots() const override {
    std::vector<SlotSpec> specs{{.name = kStep, .shape = Shape{}}};
    for (const auto& slot : slots_) specs.push_back({.name = slot.name});
    if constexpr (std::is_same_v<Options, torch::optim::AdagradOptions>)
      specs.back().initial_value = options_.initial_accumulator_value();
    return specs;
  }
  // "step" has a shape of its own.
  bool slots_differ() const override { return true; }
  std::vector<SlotSpec> slots_of(const VariableSpec& variable) const override {
    if (variable.row_sparse) {
      throw invalid_argument(
          fmt::format("not supported: torch_optimizer() for the row-sparse variable {}",
                      variable.describe()),
          "give it another optimizer, or make it dense: Embedding takes {.row_sparse = false}");
    }
    return slots();
  }
  bool per_variable() const override { return true; }
  std::string describe() const override {
    return fmt::format("torch::optim::{}(lr={}, {})", Kind::kName, schedule().describe(),
                       Kind::text(options_));
  }

  void update(const Segment& segment, int64_t iterations) const override {
    if (segment.weights.numel() == 0) return;
    const torch::NoGradGuard no_grad;
    // Another tensor of the same memory: the variable's own gradient stays where it is.
    const Tensor weights = segment.weights.detach();
    weights.mutable_grad() = segment.gradient_scale == 1.0
                                 ? segment.gradient.detach()
                                 : segment.gradient.mul(segment.gradient_scale);
    Options options = options_;
    options.lr(rate(segment, iterations));
    typename Kind::Class optimizer({weights}, options);
    auto& states = optimizer.state();
    const auto key = key_of<typename std::decay_t<decltype(states)>::key_type>(weights);
    const Tensor& count = segment.slots[0];
    const auto step = static_cast<int64_t>(count.template item<double>());
    constexpr bool kCounts = requires(State & state) { state.step(int64_t{}); };
    if (step > 0 && !slots_.empty()) {
      auto state = std::make_unique<State>();
      if constexpr (kCounts) state->step(step);
      for (size_t s = 0; s < slots_.size(); ++s) slots_[s].set(*state, segment.slots[s + 1]);
      states[key] = std::move(state);
    }
    optimizer.step();
    if (!slots_.empty()) {
      const auto& state = static_cast<const State&>(*states.at(key));
      for (size_t s = 0; s < slots_.size(); ++s) {
        const Tensor& after = (state.*slots_[s].get)();
        const Tensor& slot = segment.slots[s + 1];
        if (after.defined() && !after.is_same(slot)) Tensor(slot).copy_(after);
      }
    }
    Tensor(count).fill_(static_cast<double>(step + 1));
    internal::mark_written(segment.weights);
  }

 private:
  static constexpr const char* kStep = "step";

  const Options options_;
  const std::vector<TorchSlot<State>> slots_;
};

template <typename Options>
Optimizer made(const Options& options, const std::optional<LearningRate>& learning_rate) {
  return Optimizer(std::make_shared<TorchRule<Options>>(options, learning_rate));
}

}  // namespace

Optimizer torch_optimizer(const torch::optim::AdamOptions& options,
                          const std::optional<LearningRate>& learning_rate) {
  return made(options, learning_rate);
}
Optimizer torch_optimizer(const torch::optim::AdamWOptions& options,
                          const std::optional<LearningRate>& learning_rate) {
  return made(options, learning_rate);
}
Optimizer torch_optimizer(const torch::optim::SGDOptions& options,
                          const std::optional<LearningRate>& learning_rate) {
  return made(options, learning_rate);
}
Optimizer torch_optimizer(const torch::optim::RMSpropOptions& options,
                          const std::optional<LearningRate>& learning_rate) {
  return made(options, learning_rate);
}
Optimizer torch_optimizer(const torch::optim::AdagradOptions& options,
                          const std::optional<LearningRate>& learning_rate) {
  return made(options, learning_rate);
}

Optimizer torch_optimizer(const torch::optim::LBFGSOptions& /*options*/,
                          const std::optional<LearningRate>& /*learning_rate*/) {
  throw invalid_argument(
      "not supported: torch::optim::LBFGS, which computes the loss several times in a step",
      "choose another optimizer, or write the loop with muster::Cluster and LibTorch's own step()");
}

}  // namespace muster::inline v0_1::optim
