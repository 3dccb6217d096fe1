#include "muster/train/adopted_module.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1 {
namespace {

std::recursive_mutex& default_generator_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

// LibTorch's own lock is taken at each draw; it cannot be held over several.
std::lock_guard<std::mutex> hold(at::Generator& generator) {
  return std::lock_guard<std::mutex>(generator.mutex());
}

// Returns the state it was in.
Tensor reseed(at::Generator generator, uint64_t seed) {
  const auto held = hold(generator);
  Tensor state = generator.get_state();
  generator.set_current_seed(seed);
  return state;
}

void put_back(at::Generator generator, const Tensor& state) {
  const auto held = hold(generator);
  generator.set_state(state);
}

struct Registered {
  std::string path;  // "encoder/conv1/weight"
  Tensor tensor;
  bool parameter;
};

// Parameters, then buffers, each tensor once.
std::vector<Registered> registered(const torch::nn::Module& module) {
  std::vector<Registered> all;
  std::unordered_set<const at::TensorImpl*> seen;
  const auto add = [&](const auto& tensors, bool parameter) {
    for (const auto& item : tensors) {
      if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
      std::string path = item.key();
      std::replace(path.begin(), path.end(), '.', '/');
      all.push_back({std::move(path), item.value(), parameter});
    }
  };
  add(module.named_parameters(), true);
  add(module.named_buffers(), false);
  return all;
}

// Which tensors are in use as which variables. A tensor that two contexts wrote to would belong to
// neither: training and evaluation, or two replicas in threads, must not share a module.
class Claims {
 public:
  // The variable that has the tensor already.
  std::optional<std::string> claim(const Tensor& tensor, const std::string& variable) {
    const std::lock_guard lock(mutex_);
    const auto [known, fresh] = claims_.emplace(tensor.unsafeGetTensorImpl(), variable);
    return fresh ? std::nullopt : std::optional(known->second);
  }
  void release(const Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    claims_.erase(tensor.unsafeGetTensorImpl());
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const at::TensorImpl*, std::string> claims_;
};

Claims& claims() {
  static Claims claims;
  return claims;
}

// Such tables have gradients that no update here takes.
void refuse_sparse_tables(const torch::nn::Module& module, const std::string& name) {
  for (const auto& item : module.named_modules(name)) {
    const auto* table = item.value()->as<torch::nn::EmbeddingImpl>();
    const auto* bag = item.value()->as<torch::nn::EmbeddingBagImpl>();
    if (!(table != nullptr && table->options.sparse()) &&
        !(bag != nullptr && bag->options.sparse()))
      continue;
    std::string path = item.key();
    std::replace(path.begin(), path.end(), '.', '/');
    const Tensor& weight = table != nullptr ? table->weight : bag->weight;
    throw invalid_argument(
        fmt::format("not supported: the table {} of a torch module was made with sparse(true)",
                    path),
        fmt::format("leave sparse(true) out: it trains as a whole then; or take Muster's, of which "
                    "only the rows that a step used travel and are updated: context.model(\"{}\", "
                    "[] {{ return Embedding({}, {}); }})",
                    item.key().substr(item.key().rfind('.') + 1), weight.size(0), weight.size(1)));
  }
}

std::string type_name(std::type_index type) { return c10::demangle(type.name()); }

class ModelFunctionOwner final : public ModuleOwner {
 public:
  explicit ModelFunctionOwner(ModelContext& context) : context_(context) {}
  VariableStore& variables() override { return context_.variables(); }
  uint64_t seed() const override { return context_.seed(); }
  Device device() const override { return context_.device(); }
  bool training() const override { return context_.mode() == Mode::kTrain; }
  RandomKey next_random_key(const std::string& name) override {
    return context_.next_random_key(name);
  }
  std::shared_ptr<void>& kept(const std::string& name) override { return context_.kept(name); }

 private:
  ModelContext& context_;
};

}  // namespace

ModuleOwner& module_owner(ModelContext& context) {
  std::shared_ptr<void>& kept = context.kept("owner of torch modules");
  if (!kept) kept = std::make_shared<ModelFunctionOwner>(context);
  return *static_cast<ModelFunctionOwner*>(kept.get());
}

SeededGenerator::SeededGenerator(RandomKey key, Device device)
    : lock_(default_generator_mutex()), device_(device) {
  Random random(key);
  state_ = reseed(at::detail::getDefaultCPUGenerator(), random.next_u32());
  if (device_.is_cuda())
    device_state_ = reseed(at::globalContext().defaultGenerator(device_), random.next_u32());
}

SeededGenerator::~SeededGenerator() {
  put_back(at::detail::getDefaultCPUGenerator(), state_);
  if (device_state_.defined())
    put_back(at::globalContext().defaultGenerator(device_), device_state_);
}

const AdoptedModule& AdoptedModule::get(ModuleOwner& owner, const std::string& name,
                                        std::type_index type, const std::function<Made()>& make) {
  if (name.empty()) {
    throw invalid_argument("a torch module needs a name", "torch_module<Net>(context, \"net\")");
  }
  std::shared_ptr<void>& kept = owner.kept("torch module " + name);
  if (!kept) {
    const SeededGenerator seeded(derive_key(owner.seed(), {id_of("torch module"), id_of(name)}),
                                 owner.device());
    Made made = make();
    if (!made.module) {
      throw invalid_argument(fmt::format("the torch module \"{}\" is null", name),
                             "let the function given to torch_module() return a module");
    }
    const std::shared_ptr<AdoptedModule> adopted(new AdoptedModule(owner, name, std::move(made)));
    refuse_sparse_tables(*adopted->made_.module, name);
    for (const Registered& one : registered(*adopted->made_.module)) {
      adopted->adopt(name + "/" + one.path, one.tensor, one.parameter);
    }
    kept = adopted;
  }
  auto& module = *static_cast<AdoptedModule*>(kept.get());
  if (module.made_.type != type) {
    throw invalid_argument(fmt::format("the torch module \"{}\" is a {}, and was asked for as a {}",
                                       name, type_name(module.made_.type), type_name(type)),
                           "give one of the two another name");
  }
  // At calls 2, 4, 8, ...: a walk over a large module at every step would cost more than it finds.
  ++module.calls_;
  if (module.calls_ > 1 && (module.calls_ & (module.calls_ - 1)) == 0) module.check_unchanged();
  module.made_.module->train(owner.training());
  return module;
}

AdoptedModule::AdoptedModule(ModuleOwner& owner, const std::string& name, Made made)
    : owner_(owner), name_(name), made_(std::move(made)) {}

AdoptedModule::~AdoptedModule() {
  for (const Tensor& tensor : claimed_) claims().release(tensor);
}

void AdoptedModule::adopt(const std::string& path, const Tensor& tensor, bool parameter) {
  const char* kind = parameter ? "parameter" : "buffer";
  if (owner_.variables().find(path) != nullptr) {
    throw invalid_argument(
        fmt::format("the {} {} of a torch module has the name of a variable that exists", kind,
                    path),
        "give the module another name");
  }
  if (!tensor.device().is_cpu() || tensor.layout() != at::kStrided || tensor.is_quantized() ||
      tensor.is_complex()) {
    throw invalid_argument(
        fmt::format("not supported: the {} {} is {} on {}, {}{}", kind, path,
                    muster::describe(tensor), tensor.device().str(), c10::str(tensor.layout()),
                    tensor.is_quantized() ? ", quantised" : ""),
        "make the module of dense real tensors on the CPU: it is moved to the replica's device; a "
        "complex one as two real ones");
  }
  if (const auto owner = claims().claim(tensor, path)) {
    throw invalid_argument(
        fmt::format("the {} {} is in use already, as the variable {}", kind, path, *owner),
        "make a new module at each call of the function given to torch_module(), since every "
        "replica and mode has its own; put modules that share a part into one module");
  }
  claimed_.push_back(tensor);
  VariableSpec spec{.name = path,
                    .shape = tensor.sizes().vec(),
                    .dtype = tensor.scalar_type(),
                    .initializer = [tensor](const Shape&, DType, RandomKey) { return tensor; },
                    .trainable = parameter && tensor.requires_grad()};
  if (!parameter) {
    spec.synchronization = VariableSynchronization::kOnRead;
    spec.aggregation = at::isFloatingType(spec.dtype) ? VariableAggregation::kMean
                                                      : VariableAggregation::kOnlyFirstReplica;
  }
  Variable& variable = owner_.variables().get_or_create(spec);
  // The module's own tensor becomes the variable's, for the module may hold it in a member, too.
  Tensor own = tensor;
  own.set_data(variable.value());  // contiguous now
  variable.value() = own;
  variables_.push_back(&variable);
}

void AdoptedModule::check_unchanged() const {
  const std::vector<Registered> now = registered(*made_.module);
  const auto refuse = [](const std::string& path, const std::string& what) {
    throw invalid_argument(
        fmt::format("the torch module's tensor {} {} after its first use", path, what),
        "register parameters, buffers and submodules in the constructor, and "
        "convert and load there, or in the function given to torch_module()");
  };
  for (const Registered& one : now) {
    const std::string path = name_ + "/" + one.path;
    const Variable* variable = owner_.variables().find(path);
    if (variable == nullptr) refuse(path, "was registered");
    if (!variable->value().is_same(one.tensor)) refuse(path, "was replaced");
    if (one.tensor.scalar_type() != variable->spec().dtype ||
        one.tensor.sizes() != at::IntArrayRef(variable->spec().shape)) {
      refuse(path, fmt::format("was converted to {}", muster::describe(one.tensor)));
    }
  }
  if (now.size() == variables_.size()) return;
  for (const Variable* variable : variables_) {
    const bool there = std::any_of(now.begin(), now.end(), [&](const Registered& one) {
      return one.tensor.is_same(variable->value());
    });
    if (!there) refuse(variable->name(), "was removed");
  }
}

}  // namespace muster::inline v0_1
