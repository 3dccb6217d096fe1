// The context of a model function: it finds layers, variables and optimizers by name. The first
// call creates them, later calls return the same. There is one context for each replica and mode;
// an evaluation never changes training weights. Thread safety: belongs to one replica's thread.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/layer.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/mode.h"
#include "muster/tensor/variable.h"
#include "muster/train/summaries.h"

namespace muster::inline v0_1 {

class ModelContext;
class StepContext;
struct NamedModel;

namespace internal {
// Only drivers of a model function call these; muster/train/model_steps.h.
void begin_step(ModelContext& context, int64_t global_step, int64_t replica, int64_t batch);
// The models called so far, by name.
const std::unordered_map<std::string, NamedModel>& models_of(const ModelContext& context);
size_t phases_of(const ModelContext& context);
void build_phase(ModelContext& context, std::optional<size_t> phase);
}  // namespace internal

// A layer that a model function looked up by name, and its first inputs.
struct NamedModel {
  std::string name{};
  Layer layer;
  std::vector<std::pair<Shape, DType>> inputs{};
  const std::type_info* made_by = nullptr;  // the type of the function that made it
  Layer (*made_by_function)() = nullptr;    // that function itself, if it is not a lambda
  bool told_shared = false;                 // logged: a step uses it more than once
  int64_t last_call = -1;                   // of the model function that asked for it, by number
};

// A layer together with the context it runs in.
class MUSTER_EXPORT Model {
 public:
  Model(NamedModel* model, CallContext* context) : model_(model), context_(context) {}
  Tensor operator()(const Tensor& input) const;
  // For several tensors, masks and state.
  LayerOutputs operator()(const LayerInputs& inputs) const;

 private:
  NamedModel* model_;
  CallContext* context_;
};

// A part of a cycle of steps, in which some of the optimizers train; see ModelContext::phase().
struct TrainingPhase {
  std::string name{};
  int64_t steps = 1;  // one after the other; at least 1
};

// The types that a parameter can be read as.
template <typename T>
concept ParamType = std::same_as<T, bool> || std::same_as<T, int> || std::same_as<T, int64_t> ||
    std::same_as<T, double> || std::same_as<T, std::string> ||
    std::same_as<T, std::vector<int64_t>> || std::same_as<T, std::vector<double>> ||
    std::same_as<T, std::vector<std::string>>;

class MUSTER_EXPORT ModelContext {
 public:
  // Read access to the JSON object of the Estimator. It converts to JSON:
  // `const nlohmann::json& params = context.params();`
  class Params {
   public:
    explicit Params(const nlohmann::json& object) : object_(&object) {}
    // Throws InvalidArgument with the existing names for an unknown name, which is undefined in
    // nlohmann's.
    const nlohmann::json& operator[](const std::string& name) const;
    bool contains(const std::string& name) const;
    // As nlohmann's value(): returns `otherwise` for an unknown name.
    template <typename T, typename Json = nlohmann::json>
    auto value(const std::string& name, T&& otherwise) const {
      return static_cast<const Json&>(*object_).value(name, std::forward<T>(otherwise));
    }
    operator const nlohmann::json&() const {  // NOLINT(google-explicit-constructor)
      return *object_;
    }

   private:
    const nlohmann::json* object_;
  };

  // `variables` and `params` must outlive the context.
  ModelContext(Mode mode, VariableStore& variables, uint64_t seed, const nlohmann::json& params);
  ModelContext(const ModelContext&) = delete;
  ModelContext& operator=(const ModelContext&) = delete;
  ~ModelContext();

  Mode mode() const { return mode_; }
  // The number of updates so far: 0 in the first step.
  int64_t global_step() const { return global_step_; }
  // Returns the name of the phase that the next update belongs to, for optimizers that take turns:
  //
  //   if (context.phase({{"critic", 5}, {"generator", 1}}) == "critic")
  //     return EstimatorSpec::train(critic_loss, adam_c.minimize(critic_loss, is_critic));
  //   return EstimatorSpec::train(generator_loss, adam_g.minimize(generator_loss, is_generator));
  //
  // The steps of the cycle repeat from step 0 on; every step is one of the run's steps and reads a
  // batch of its own. An optimizer that a step does not name makes no step: its variables, slots
  // and iterations are unchanged. The model is built by one call for each phase. The first phase in
  // evaluation and prediction. Throws InvalidArgument for a cycle without phases, with a name twice
  // or an empty one, with fewer steps than 1, and if it differs from that of an earlier call.
  std::string phase(const std::vector<TrainingPhase>& cycle);
  // The device of variables and features: for tensors that a model function makes itself.
  Device device() const { return variables_.device(); }
  // Returns a parameter of the Estimator as a T: `context.param<double>("learning_rate")`. Throws
  // InvalidArgument with the existing names for an unknown name, and with the value if it is not a
  // T. A whole number is also a double, and 32.0 also an int.
  template <ParamType T>
  T param(const std::string& name) const {
    T value{};
    read_param(name, value);
    return value;
  }
  // The same; returns `otherwise` for an unknown name.
  template <ParamType T>
  T param(const std::string& name, T otherwise) const {
    return params().contains(name) ? param<T>(name) : std::move(otherwise);
  }
  // The same, for a text.
  std::string param(const std::string& name, const char* otherwise) const {
    return param<std::string>(name, otherwise);
  }
  // All parameters, as the Estimator got them.
  Params params() const { return Params(params_); }

  // Returns the layer that `make` returned at the first call with this name. Its variables are
  // called "<name>/...". Throws InvalidArgument if `make` is another function than at the first
  // call, because it would not be called.
  Model model(const std::string& name, const std::function<Layer()>& make);
  // Returns a variable of your own. Throws InvalidArgument for a new name after the model was
  // built.
  const Tensor& variable(const VariableSpec& spec);
  // Returns the optimizer of that name, with the options of this call: the learning rate may change
  // from step to step, but not the kind of optimizer (InvalidArgument).
  optim::Optimizer optimizer(const optim::Optimizer& optimizer);
  // Writes this step's summaries for TensorBoard: `context.summary().histogram("logits", logits)`.
  Summaries& summary() { return summaries_; }
  // Returns a key for random numbers that differs for each name, step, batch and replica.
  RandomKey random_key(const std::string& name) const;

  // --- for adapters of modules that are not layers, such as <muster/torch.h> ---
  // All variables of this context.
  VariableStore& variables() { return variables_; }
  const VariableStore& variables() const { return variables_; }
  uint64_t seed() const { return seed_; }
  // Like random_key(), but differs also between calls within a step.
  RandomKey next_random_key(const std::string& name);
  // Storage of an adapter under that name, as long as the context lives; empty at first.
  std::shared_ptr<void>& kept(const std::string& name) { return kept_[name]; }
  // The context with which layers are called.
  CallContext& calls();

 private:
  friend void internal::begin_step(ModelContext& context, int64_t global_step, int64_t replica,
                                   int64_t batch);
  friend const std::unordered_map<std::string, NamedModel>& internal::models_of(
      const ModelContext& context);
  friend size_t internal::phases_of(const ModelContext& context);
  friend void internal::build_phase(ModelContext& context, std::optional<size_t> phase);

  void read_param(const std::string& name, bool& value) const;
  void read_param(const std::string& name, int& value) const;
  void read_param(const std::string& name, int64_t& value) const;
  void read_param(const std::string& name, double& value) const;
  void read_param(const std::string& name, std::string& value) const;
  void read_param(const std::string& name, std::vector<int64_t>& value) const;
  void read_param(const std::string& name, std::vector<double>& value) const;
  void read_param(const std::string& name, std::vector<std::string>& value) const;

  Mode mode_;
  VariableStore& variables_;
  uint64_t seed_;
  const nlohmann::json& params_;
  std::unique_ptr<StepContext> calls_;
  int64_t global_step_ = 0;
  int64_t replica_ = 0;
  int64_t batch_ = 0;
  std::unordered_map<std::string, NamedModel> models_;
  int64_t call_ = 0;  // the number of this call of the model function
  Summaries summaries_;
  std::vector<TrainingPhase> cycle_;  // what phase() was called with; empty: it was not
  std::optional<size_t> build_phase_;
  std::unordered_map<std::string, std::string> optimizers_;  // name -> kind of optimizer
  std::unordered_map<std::string, std::shared_ptr<void>> kept_;
  std::unordered_map<std::string, uint64_t> draws_;  // counts next_random_key(), in this step
};

}  // namespace muster::inline v0_1
