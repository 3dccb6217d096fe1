#include "muster/train/model_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/tracing.h"
#include "muster/train/model_steps.h"

namespace muster::inline v0_1 {

using nlohmann::json;

namespace {

// The name of a T in an error, and its description in `value`; nothing if that is none.
template <typename T>
struct Reader;

template <>
struct Reader<bool> {
  static std::string name() { return "true or false"; }
  static std::optional<bool> read(const json& value) {
    return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
  }
};

template <>
struct Reader<std::string> {
  static std::string name() { return "a text"; }
  static std::optional<std::string> read(const json& value) {
    return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
  }
};

template <>
struct Reader<double> {
  static std::string name() { return "a number"; }
  static std::optional<double> read(const json& value) {
    return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
  }
};

template <typename T>
requires std::signed_integral<T>
struct Reader<T> {
  using Limits = std::numeric_limits<T>;
  static std::string name() {
    if (sizeof(T) == sizeof(int64_t)) return "a whole number";
    return fmt::format("a whole number from {} to {}", Limits::min(), Limits::max());
  }
  static std::optional<T> read(const json& value) {
    if (value.is_number_float()) {
      constexpr double kExact = 9007199254740992.0;  // doubles hold all whole numbers up to here
      const double given = value.get<double>();
      if (given != std::trunc(given) || std::abs(given) > kExact) return std::nullopt;
      return read(json(static_cast<int64_t>(given)));
    }
    if (value.is_number_unsigned() &&
        value.get<uint64_t>() > static_cast<uint64_t>(Limits::max())) {
      return std::nullopt;
    }
    if (!value.is_number_integer()) return std::nullopt;
    const auto given = value.get<int64_t>();
    if (given < Limits::min() || given > Limits::max()) return std::nullopt;
    return static_cast<T>(given);
  }
};

template <typename T>
struct Reader<std::vector<T>> {
  static std::string name() { return "a list, and in it " + Reader<T>::name(); }
  static std::optional<std::vector<T>> read(const json& value) {
    if (!value.is_array()) return std::nullopt;
    std::vector<T> all;
    for (const json& one : value) {
      std::optional<T> read = Reader<T>::read(one);
      if (!read) return std::nullopt;
      all.push_back(*std::move(read));
    }
    return all;
  }
};

template <typename T>
T read_as(const ModelContext::Params& params, const std::string& name) {
  const json& value = params[name];
  if (std::optional<T> read = Reader<T>::read(value)) return *std::move(read);
  throw invalid_argument(
      fmt::format("the Estimator's parameter '{}' is {}; the model function needs {}", name,
                  value.dump(-1, ' ', false, json::error_handler_t::replace), Reader<T>::name()),
      "give the Estimator such a value, or ask for another type: context.param<...>(\"" + name +
          "\")");
}

}  // namespace

const json& ModelContext::Params::operator[](const std::string& name) const {
  const auto found = object_->find(name);
  if (found != object_->end()) return *found;
  std::vector<std::string> names;
  for (const auto& [key, value] : object_->items()) names.push_back(key);
  throw unknown_name(
      "the Estimator", "parameter", name, names,
      fmt::format("give it to the Estimator, as its third argument: {{{{\"{}\", ...}}}}; or say "
                  "what holds without it: context.param(\"{}\", otherwise)",
                  name, name));
}

bool ModelContext::Params::contains(const std::string& name) const {
  return object_->contains(name);
}

void ModelContext::read_param(const std::string& name, bool& value) const {
  value = read_as<bool>(params(), name);
}
void ModelContext::read_param(const std::string& name, int& value) const {
  value = read_as<int>(params(), name);
}
void ModelContext::read_param(const std::string& name, int64_t& value) const {
  value = read_as<int64_t>(params(), name);
}
void ModelContext::read_param(const std::string& name, double& value) const {
  value = read_as<double>(params(), name);
}
void ModelContext::read_param(const std::string& name, std::string& value) const {
  value = read_as<std::string>(params(), name);
}
void ModelContext::read_param(const std::string& name, std::vector<int64_t>& value) const {
  value = read_as<std::vector<int64_t>>(params(), name);
}
void ModelContext::read_param(const std::string& name, std::vector<double>& value) const {
  value = read_as<std::vector<double>>(params(), name);
}
void ModelContext::read_param(const std::string& name, std::vector<std::string>& value) const {
  value = read_as<std::vector<std::string>>(params(), name);
}

namespace {

// The first call shows the inputs of the model, for its graph.
void note_inputs(NamedModel& model, const std::vector<Tensor>& inputs) {
  if (!model.inputs.empty()) return;
  for (const Tensor& input : inputs) {
    if (!input.defined()) return;  // the layer says so
    model.inputs.push_back({input.sizes().vec(), input.scalar_type()});
  }
}

// A key of a model function's draws: another one for each step, replica, batch and name.
RandomKey key_of_step(uint64_t seed, int64_t global_step, int64_t replica, int64_t batch,
                      const std::string& name) {
  const RandomKey key =
      derive_key(seed, {id_of("model function"), static_cast<uint64_t>(global_step),
                        static_cast<uint64_t>(replica), id_of(name)});
  // Beyond the keys of next_random_key().
  return batch == 0 ? key : key.derive(static_cast<uint64_t>(batch) << 32);
}

}  // namespace

Tensor Model::operator()(const Tensor& input) const {
  CallContext::Scope scope(*context_, model_->name);
  if (model_->inputs.empty()) note_inputs(*model_, {input});
  return model_->layer(input, *context_);
}

LayerOutputs Model::operator()(const LayerInputs& inputs) const {
  CallContext::Scope scope(*context_, model_->name);
  note_inputs(*model_, inputs.tensors);
  return model_->layer(inputs, *context_);
}

ModelContext::ModelContext(Mode mode, VariableStore& variables, uint64_t seed, const json& params)
    : mode_(mode),
      variables_(variables),
      seed_(seed),
      params_(params),
      calls_(std::make_unique<StepContext>(variables, seed)),
      summaries_(variables) {}

ModelContext::~ModelContext() = default;

CallContext& ModelContext::calls() { return *calls_; }

namespace {

using PlainFunction = Layer (*)();

PlainFunction plain_function(const std::function<Layer()>& make) {
  const auto* const plain = make.target<PlainFunction>();
  return plain == nullptr ? nullptr : *plain;
}

// Whether both come from one place of the source: a lambda's captures may differ.
bool made_by(const NamedModel& model, const std::function<Layer()>& make) {
  return *model.made_by == make.target_type() && model.made_by_function == plain_function(make);
}

}  // namespace

Model ModelContext::model(const std::string& name, const std::function<Layer()>& make) {
  auto found = models_.find(name);
  if (found == models_.end()) {
    if (name.empty()) throw invalid_argument("a model needs a name", "context.model(\"net\", ...)");
    found = models_.emplace(name, NamedModel{.name = name, .layer = make()}).first;
  }
  const bool asked_before = std::exchange(found->second.last_call, call_) == call_;
  // One place in each call: another branch of the function may ask for the model in another one.
  if (!asked_before) {
    found->second.made_by = &make.target_type();
    found->second.made_by_function = plain_function(make);
  } else if (!made_by(found->second, make)) {
    throw invalid_argument(
        fmt::format("two places of the model function make a model of the name \"{}\": the second "
                    "would get the layer of the first, and its weights",
                    name),
        "give each a different name; to call one layer twice, keep the result of context.model() "
        "and call that");
  }
  if (asked_before && !found->second.told_shared && mode_ == Mode::kTrain) {
    found->second.told_shared = true;
    if (replica_ == 0) {
      log::info(
          fmt::format("the model function uses the model \"{}\" more than once in a step: all uses "
                      "share its weights; for separate weights use separate names",
                      name));
    }
  }
  return Model(&found->second, calls_.get());
}

namespace {

bool same_cycle(const std::vector<TrainingPhase>& a, const std::vector<TrainingPhase>& b) {
  return std::ranges::equal(a, b, [](const TrainingPhase& one, const TrainingPhase& other) {
    return one.name == other.name && one.steps == other.steps;
  });
}

std::string describe(const std::vector<TrainingPhase>& cycle) {
  std::vector<std::string> parts;
  for (const TrainingPhase& phase : cycle)
    parts.push_back(fmt::format("{{\"{}\", {}}}", phase.name, phase.steps));
  return "{" + join(parts, ", ") + "}";
}

void check_cycle(const std::vector<TrainingPhase>& cycle) {
  const auto refuse = [&](const std::string& why) {
    throw invalid_argument(fmt::format("phase() was called with {}: {}", describe(cycle), why),
                           "name each phase once, with 1 or more steps: "
                           "context.phase({{\"critic\", 5}, {\"generator\", 1}})");
  };
  if (cycle.empty()) refuse("there is no phase");
  std::unordered_set<std::string> names;
  for (const TrainingPhase& phase : cycle) {
    if (phase.name.empty()) refuse("a phase has no name");
    if (!names.insert(phase.name).second) refuse(fmt::format("\"{}\" is there twice", phase.name));
    if (phase.steps < 1) refuse(fmt::format("\"{}\" has {} steps", phase.name, phase.steps));
  }
}

}  // namespace

std::string ModelContext::phase(const std::vector<TrainingPhase>& cycle) {
  if (cycle_.empty()) {
    check_cycle(cycle);
    cycle_ = cycle;
  } else if (!same_cycle(cycle_, cycle)) {
    throw invalid_argument(fmt::format("phase() was called with {}, and before with {}",
                                       describe(cycle), describe(cycle_)),
                           "a model function has one cycle of phases for the whole run");
  }
  if (build_phase_) return cycle_[*build_phase_].name;
  if (mode_ != Mode::kTrain) return cycle_.front().name;
  int64_t length = 0;
  for (const TrainingPhase& phase : cycle_) length += phase.steps;
  int64_t place = global_step_ % length;
  for (const TrainingPhase& phase : cycle_) {
    if (place < phase.steps) return phase.name;
    place -= phase.steps;
  }
  return cycle_.back().name;
}

const Tensor& ModelContext::variable(const VariableSpec& spec) {
  return variables_.get_or_create(spec).value();
}

optim::Optimizer ModelContext::optimizer(const optim::Optimizer& optimizer) {
  const std::string kind = optimizer.rule().name();
  const auto known = optimizers_.find(optimizer.name());
  if (known == optimizers_.end()) {
    optimizers_.emplace(optimizer.name(), kind);
  } else if (known->second != kind) {
    throw invalid_argument(fmt::format("the optimizer \"{}\" is {}, but was {} before",
                                       optimizer.name(), kind, known->second),
                           "an optimizer keeps its kind for the whole run; give the other one a "
                           "different name with named()");
  }
  return optimizer;
}

RandomKey ModelContext::random_key(const std::string& name) const {
  // Our own draws are not operations of LibTorch: a trace would hold their numbers as constants.
  if (is_tracing()) refuse_tracing("random_key(\"" + name + "\")", "it draws random numbers");
  return key_of_step(seed_, global_step_, replica_, batch_, name);
}

RandomKey ModelContext::next_random_key(const std::string& name) {
  // An adapter seeds a generator for a module that may draw. Where it does while it is traced, that
  // is an operation, and the trace is refused for it.
  return key_of_step(seed_, global_step_, replica_, batch_, name).derive(draws_[name]++);
}

namespace internal {

void begin_step(ModelContext& context, int64_t global_step, int64_t replica, int64_t batch) {
  context.global_step_ = global_step;
  context.replica_ = replica;
  context.batch_ = batch;
  context.draws_.clear();
  ++context.call_;
  context.calls_->begin_step(context.mode_ == Mode::kTrain, global_step, replica, batch);
}

const std::unordered_map<std::string, NamedModel>& models_of(const ModelContext& context) {
  return context.models_;
}

size_t phases_of(const ModelContext& context) { return context.cycle_.size(); }

void build_phase(ModelContext& context, std::optional<size_t> phase) {
  context.build_phase_ = phase;
}

}  // namespace internal

}  // namespace muster::inline v0_1
