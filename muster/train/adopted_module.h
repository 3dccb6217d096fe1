// A module of LibTorch (torch::nn::Module) in the context of a model function or of a function of
// run(); <muster/torch.h> is its typed interface. Thread safety: an AdoptedModule belongs to the
// context's thread; a SeededGenerator may
// be made on any thread, and waits while another thread has one.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/tensor/device.h"
#include "muster/tensor/tensor.h"
#include "muster/tensor/variable.h"
#include "muster/train/module_owner.h"

namespace torch::nn {
class Module;
}

namespace muster::inline v0_1 {

// While it exists, LibTorch's default CPU generator returns the numbers of `key` (of 32 bits of it,
// which is all that generator takes); afterwards it continues where it was. The same applies to the
// generator of `device` if that is a GPU. Scopes of one thread may nest. A process has one such
// generator: replicas in threads take turns.
class MUSTER_EXPORT SeededGenerator {
 public:
  explicit SeededGenerator(RandomKey key, Device device = at::kCPU);
  ~SeededGenerator();
  SeededGenerator(const SeededGenerator&) = delete;
  SeededGenerator& operator=(const SeededGenerator&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  Device device_;
  Tensor state_;
  Tensor device_state_;
};

class MUSTER_EXPORT AdoptedModule {
 public:
  // The result of `make`: the module, and the same object by its own type.
  struct Made {
    std::shared_ptr<torch::nn::Module> module{};
    std::shared_ptr<void> typed{};  // the same object as the type `type`
    std::type_index type;
  };

  // Returns the module of that name, set to train or to evaluate as `owner` says. At the first call
  // `make` creates it, with random numbers of (seed, name), and its parameters and buffers become
  // variables
  // "<name>/<path>", a path with '/' instead of LibTorch's '.'. Module and variable share the
  // tensor, so each sees the other's writes. A tensor registered in several places is one variable,
  // named after the first place. A parameter that requires no gradient does not train. A buffer is
  // of kOnRead: the mean over the replicas for floating-point buffers, else the chief's value.
  // Throws InvalidArgument if `type` differs from that of the first call, if a variable of that
  // name exists, if another context or module already has a tensor, for tensors that cannot be
  // trained here (other devices, sparse, quantised and complex tensors), and if parameters, buffers
  // or submodules were added, removed or converted since the first call.
  static const AdoptedModule& get(ModuleOwner& owner, const std::string& name, std::type_index type,
                                  const std::function<Made()>& make);

  ~AdoptedModule();
  AdoptedModule(const AdoptedModule&) = delete;
  AdoptedModule& operator=(const AdoptedModule&) = delete;

  const std::shared_ptr<void>& typed() const { return made_.typed; }
  // The key of the generator while the module is used.
  RandomKey next_random_key() const { return owner_.next_random_key(name_); }
  Device device() const { return owner_.device(); }

 private:
  AdoptedModule(ModuleOwner& owner, const std::string& name, Made made);
  void adopt(const std::string& path, const Tensor& tensor, bool parameter);
  void check_unchanged() const;

  ModuleOwner& owner_;
  std::string name_;
  Made made_;
  std::vector<Variable*> variables_;  // in the order of the module
  std::vector<Tensor> claimed_;       // their tensors; no other context may adopt them
  int64_t calls_ = 0;
};

}  // namespace muster::inline v0_1
