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
    return fmt::format("{}", fmt::ptr(parameter.unsafeGetTensorImpl()));
  } else {
    return parameter.unsafeGetTensorImpl();
  }
}

using States = std::decay_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;

// The state that an optimizer has of a parameter, or will have.
States::mapped_type& state_in(torch::optim::Optimizer& optimizer, const Tensor& parameter) {
  return optimizer.state()[key_of<States::key_type>(parameter)];
}

class TorchRule final : public internal::ScheduledRule {
 public:
  TorchRule(TorchOptimizerClass of, std::string text, LearningRate learning_rate)
      : ScheduledRule("torch_optimizer", of.name, std::move(learning_rate)),
        class_(std::move(of)),
        text_(std::move(text)) {}

  std::vector<SlotSpec> slots() const override {
    std::vector<SlotSpec> specs{{.name = kStep, .shape = Shape{}}};
    specs.insert(specs.end(), class_.slots.begin(), class_.slots.end());
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
    return fmt::format(fmt::runtime(text_), schedule().describe());
  }

  void update(const Segment& segment, int64_t iterations) const override {
    if (segment.weights.numel() == 0) return;
    const torch::NoGradGuard no_grad;
    const Shape shape =
        segment.variable != nullptr ? segment.variable->shape : segment.weights.sizes().vec();
    // Another tensor of the same memory: the variable's own gradient stays where it is.
    const Tensor weights = segment.weights.detach().view(shape);
    const Tensor gradient = segment.gradient.detach().view(shape);
    weights.mutable_grad() =
        segment.gradient_scale == 1.0 ? gradient : gradient.mul(segment.gradient_scale);
    const Tensor& count = segment.slots[0];
    const auto step = static_cast<int64_t>(count.item<double>());
    std::vector<Tensor> slots;
    for (size_t i = 0; i < class_.slots.size(); ++i)
      slots.push_back(segment.slots[i + 1].view(class_.slots[i].shape.value_or(shape)));
    make_step(class_, weights, slots, step, rate(segment, iterations));
    Tensor(count).fill_(static_cast<double>(step + 1));
    internal::mark_written(segment.weights);
  }

  // Makes the step after `step` earlier ones of one parameter, whose gradient is there, and updates
  // the tensors of its state.
  static void make_step(const TorchOptimizerClass& of, const Tensor& parameter,
                        const std::vector<Tensor>& slots, int64_t step, double rate) {
    const auto optimizer = of.make(parameter);
    optimizer->param_groups().front().options().set_lr(rate);
    if (step > 0 && !slots.empty()) state_in(*optimizer, parameter) = of.state_of(slots, step);
    optimizer->step();
    if (slots.empty()) return;
    const auto& state = state_in(*optimizer, parameter);
    if (state == nullptr) {
      throw invalid_argument(
          fmt::format("torch_optimizer: {} has no state of a parameter after a step", of.name),
          "give no slots, or let step() make state()[...] of the parameter");
    }
    const std::vector<Tensor> after = of.tensors_of(*state);
    if (after.size() != slots.size()) {
      throw invalid_argument(
          fmt::format("torch_optimizer: tensors_of() of {} gave {} tensors for {} "
                      "slots",
                      of.name, after.size(), slots.size()),
          "it gives the tensors in the order of the slots");
    }
    for (size_t i = 0; i < slots.size(); ++i) {
      if (after[i].defined() && !after[i].is_same(slots[i])) Tensor(slots[i]).copy_(after[i]);
    }
  }

 private:
  static constexpr const char* kStep = "step";

  const TorchOptimizerClass class_;
  const std::string text_;  // with {} for the learning rate
};

// A class of LibTorch's, with its options.
template <typename Options>
TorchOptimizerClass class_of(const Options& options) {
  using Kind = TorchKind<Options>;
  using State = typename Kind::State;
  const std::vector<TorchSlot<State>> slots = Kind::slots(options);
  TorchOptimizerClass of{.name = Kind::kName,
                         .make =
                             [options](const Tensor& parameter) {
                               return std::make_unique<typename Kind::Class>(
                                   std::vector<Tensor>{parameter}, options);
                             },
                         .slots = {},
                         .tensors_of =
                             [slots](const torch::optim::OptimizerParamState& given) {
                               std::vector<Tensor> tensors;
                               for (const auto& slot : slots)
                                 tensors.push_back((static_cast<const State&>(given).*slot.get)());
                               return tensors;
                             },
                         .state_of =
                             [slots](const std::vector<Tensor>& tensors, int64_t step) {
                               auto state = std::make_unique<State>();
                               constexpr bool kCounts = requires(State & counting) {
                                 counting.step(int64_t{});
                               };
                               if constexpr (kCounts) state->step(step);
                               for (size_t i = 0; i < slots.size(); ++i)
                                 slots[i].set(*state, tensors[i]);
                               return state;
                             }};
  for (const auto& slot : slots) of.slots.push_back({.name = slot.name});
  if constexpr (std::is_same_v<Options, torch::optim::AdagradOptions>)
    of.slots.back().initial_value = options.initial_accumulator_value();
  return of;
}

template <typename Options>
Optimizer made(const Options& options, const std::optional<LearningRate>& learning_rate) {
  TorchOptimizerClass of = class_of(options);
  try {
    (void)of.make(torch::zeros({1}));
  } catch (const c10::Error& error) {
    throw invalid_argument(fmt::format("torch_optimizer: {}", text_of(error)),
                           "the options are those of torch::optim");
  }
  std::string text =
      fmt::format("torch::optim::{}(lr={{}}, {})", of.name, TorchKind<Options>::text(options));
  return Optimizer(std::make_shared<TorchRule>(
      std::move(of), std::move(text), learning_rate ? *learning_rate : LearningRate(options.lr())));
}

// --- classes of a program's own ------------------------------------------------------------------

void check_names(const TorchOptimizerClass& of) {
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw invalid_argument(fmt::format("torch_optimizer: {}", what), hint);
  };
  if (of.name.empty() || of.name.find_first_of("/{}") != std::string::npos) {
    refuse(fmt::format("the name of the class is \"{}\"", of.name),
           "the name is a word without /, { and }: it begins the names of the slots");
  }
  if (!of.make)
    refuse(fmt::format("{} has no function make", of.name), "make returns an optimizer");
  if (!of.slots.empty() && (!of.tensors_of || !of.state_of)) {
    refuse(fmt::format("{} has slots, and no function tensors_of or state_of", of.name),
           "tensors_of reads the slots of a state, and state_of makes a state of them");
  }
  for (const SlotSpec& slot : of.slots) {
    if (slot.name.empty() || slot.name == "step" || slot.name.find('/') != std::string::npos) {
      refuse(fmt::format("{} has a slot named \"{}\"", of.name, slot.name),
             "the name is a word without /; \"step\" is the count of updates, which state_of is "
             "given");
    }
  }
}

// Makes three steps with one optimizer, and three with a new one for each, as update() does: the
// weights are the same if the functions keep all of the state. Returns the learning rate.
double tried(const TorchOptimizerClass& of) {
  const auto numbers = [](int step) {
    return torch::arange(6).to(kFloat32).mul(1.3 + step).cos().view({2, 3});
  };
  const Tensor whole = numbers(7), kept = numbers(7);
  const auto optimizer = of.make(whole);
  if (optimizer == nullptr || optimizer->param_groups().size() != 1 ||
      optimizer->param_groups().front().params().size() != 1) {
    throw invalid_argument(
        fmt::format("torch_optimizer: make of {} gave no optimizer of one parameter", of.name),
        "return std::make_unique<" + of.name + ">(std::vector<torch::Tensor>{parameter}, options)");
  }
  const double rate = optimizer->param_groups().front().options().get_lr();
  std::vector<Tensor> slots;
  for (const SlotSpec& slot : of.slots) {
    slots.push_back(slot.begins_as_weights
                        ? kept.clone()
                        : torch::full(slot.shape.value_or(Shape{2, 3}), slot.initial_value));
  }
  const torch::NoGradGuard no_grad;
  for (int step = 0; step < 3; ++step) {
    whole.mutable_grad() = numbers(step);
    kept.mutable_grad() = numbers(step);
    optimizer->step();
    TorchRule::make_step(of, kept, slots, step, rate);
  }
  if (!at::equal(whole, kept)) {
    throw invalid_argument(
        fmt::format("torch_optimizer: {} makes other steps from the state that its functions keep",
                    of.name),
        "list every tensor and number of its state in slots (a number has the shape {}), return "
        "them "
        "in tensors_of, and set them in state_of");
  }
  return rate;
}

}  // namespace

Optimizer torch_optimizer(TorchOptimizerClass of,
                          const std::optional<LearningRate>& learning_rate) {
  check_names(of);
  double rate = 0;
  try {
    rate = tried(of);
  } catch (const c10::Error& error) {
    throw invalid_argument(
        fmt::format("not supported: torch_optimizer() with {}, which failed in a trial: {}",
                    of.name, text_of(error)),
        "step() is called without a closure, and the options need get_lr() and set_lr(); for "
        "others "
        "write the loop with muster::Cluster and the class's own step()");
  }
  std::string text = of.name + "(lr={})";
  return Optimizer(std::make_shared<TorchRule>(
      std::move(of), std::move(text), learning_rate ? *learning_rate : LearningRate(rate)));
}

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
      "choose another optimizer, or write the loop with muster::Cluster and LibTorch's own "
      "step(closure), where the closure returns cluster.all_reduce() of the loss");
}

}  // namespace muster::inline v0_1::optim
