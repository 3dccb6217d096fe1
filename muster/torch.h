// Modules of LibTorch in model functions, and in functions of run(). Opt-in: this header includes
// LibTorch's modules, which <muster/muster.h> does not. Thread safety: as the context.
//
//   struct Net : torch::nn::Module { ... Tensor forward(Tensor x); };
//
//   auto net = torch_module<Net>(context, "net", /*hidden=*/64);  // made at the first call
//   Tensor logits = net->forward(images);
//
// In a function of run() the context is distribute::ReplicaContext::current().
//
// - Parameters and buffers are variables, "net/fc1/weight" for LibTorch's "fc1.weight": optimizers,
//   filters, checkpoints and strategies treat them like all others. Their initial values are those
//   of the new module; you may load weights into it there (torch::load). In evaluation and
//   prediction the values are the checkpoint's.
// - Every torch_module() call puts the module into the context's mode, train() or eval(). To keep a
//   part in another mode, set it after the call, or override train().
// - The random numbers that a module draws from LibTorch's default generator, when it is made and
//   when it is used, are a function of (seed, name), and in use also of step, replica and call: the
//   same seed gives the same bits. The generator is restored afterwards.
// - Each replica has its own statistics (BatchNorm's running_mean and running_var), of its part of
//   the batch. A checkpoint holds their mean, for evaluation, and each replica's, to continue.
//   Counts (num_batches_tracked) are the chief's. Batches of zero rows change neither.
// - Register all parameters and buffers when the module is made, and neither convert nor replace
//   them later (InvalidArgument). Change buffers in place.
// - Every replica and mode has its own module; a tensor belongs to one module and name.
// - A module is made on the CPU; its registered tensors then move to the replica's device, where
//   random numbers are seeded in the same way. Tensors that it does not register stay where they
//   are.
// - Not supported: sparse, quantised and complex tensors, training in other types than float32 and
//   float64.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "muster/loop/replica_context.h"
#include "muster/optim/torch_optimizer.h"
#include "muster/train/adopted_module.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1 {

// A ModelContext, or a distribute::ReplicaContext.
template <typename Context>
concept ModuleContext = requires(Context& context) {
  { module_owner(context) } -> std::same_as<ModuleOwner&>;
};

// A module of one replica and mode; valid as long as the context.
template <typename Net>
class TorchModule {
 public:
  // One use of the module, until the end of the full expression.
  class Use {
   public:
    Use(Net* net, RandomKey key, Device device) : generator_(key, device), net_(net) {}
    Net* operator->() const { return net_; }

   private:
    SeededGenerator generator_;
    Net* net_;
  };

  explicit TorchModule(const AdoptedModule& module) : module_(&module) {}

  // net->encode(x): any member.
  Use operator->() const { return Use(get().get(), module_->next_random_key(), module_->device()); }
  // net(x) is net->forward(x).
  template <typename... Args>
  auto operator()(Args&&... args) const {
    return operator->()->forward(std::forward<Args>(args)...);
  }
  // The module itself. Its random numbers are then not seeded by Muster.
  std::shared_ptr<Net> get() const { return std::static_pointer_cast<Net>(module_->typed()); }

 private:
  const AdoptedModule* module_;
};

// Returns the module that `make` returned at the first call with this name, as a std::shared_ptr to
// a module or a module holder (torch::nn::Sequential). Use it for modules that are built in pieces
// or loaded.
template <ModuleContext Context, typename Make>
requires(!torch::detail::is_module_holder<Make>::value) &&
    std::invocable<const Make&> auto torch_module(Context& context, const std::string& name,
                                                  const Make& make) {
  using Pointer = std::invoke_result_t<const Make&>;
  using Net = std::remove_reference_t<decltype(*std::declval<Pointer&>())>;
  static_assert(std::is_base_of_v<torch::nn::Module, Net>,
                "torch_module() needs a function that returns a torch::nn::Module");
  return TorchModule<Net>(AdoptedModule::get(module_owner(context), name, typeid(Net), [&make] {
    Pointer made = make();
    std::shared_ptr<Net> net;
    if constexpr (torch::detail::is_module_holder<Pointer>::value) {
      if (!made.is_empty()) net = made.ptr();
    } else {
      net = std::move(made);
    }
    return AdoptedModule::Made{net, net, typeid(Net)};
  }));
}

// Returns the module of class Net (or of holder Net) that the first call with this name made from
// `args`.
template <typename Net, ModuleContext Context, typename... Args>
requires std::is_base_of_v<torch::nn::Module, Net> ||
    torch::detail::is_module_holder<Net>::value auto
    torch_module(Context& context, const std::string& name, const Args&... args) {
  return torch_module(context, name, [&] {
    if constexpr (torch::detail::is_module_holder<Net>::value) {
      return Net(args...);
    } else {
      return std::make_shared<Net>(args...);
    }
  });
}

}  // namespace muster::inline v0_1
