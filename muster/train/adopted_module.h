// A module of LibTorch (torch::nn::Module) that lives in a model context; <muster/torch.h> is the
// typed way to it. Thread safety: an AdoptedModule belongs to the context's thread; a
// SeededGenerator may be made on any thread, and waits while another thread has one.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/train/model_context.h"

namespace torch::nn {
class Module;
}

namespace muster::inline v0_1 {

// While it lives, LibTorch's default CPU generator gives the numbers of `key` (of 32 bits of it,
// which are all that generator's engine takes); afterwards it goes on where it was. So does that of
// `device`, when that is a GPU. Scopes of one thread may nest. There is one such generator in a
// process: replicas in threads take turns.
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
  // What `make` gives: the module, once as its type.
  struct Made {
    std::shared_ptr<torch::nn::Module> module{};
    std::shared_ptr<void> typed{};  // the same object as the type `type`
    std::type_index type;
  };

  // The module of that name, in the context's mode. At the first call `make` makes it, drawing from
  // (seed, name), and its parameters and buffers become variables "<name>/<path>", a path with '/'
  // for LibTorch's '.': the same tensors, so that what either side writes the other sees. A tensor
  // registered in several places is one variable, of the first place. A parameter that requires no
  // gradient does not train. A buffer is of kOnRead: a mean over the replicas when it is floating,
  // else the chief's. Throws InvalidArgument when `type` is another one than at the first call,
  // when a variable of that name exists, when another context or module has a tensor already, for
  // what cannot be trained here (other devices, sparse, quantised and complex tensors), and when
  // parameters, buffers or submodules came, went or were converted since the first call.
  static const AdoptedModule& get(ModelContext& context, const std::string& name,
                                  std::type_index type, const std::function<Made()>& make);

  ~AdoptedModule();
  AdoptedModule(const AdoptedModule&) = delete;
  AdoptedModule& operator=(const AdoptedModule&) = delete;

  const std::shared_ptr<void>& typed() const { return made_.typed; }
  // For the generator while the module is used.
  RandomKey next_random_key() const { return context_.next_random_key(name_); }
  Device device() const { return context_.device(); }

 private:
  AdoptedModule(ModelContext& context, const std::string& name, Made made);
  void adopt(const std::string& path, const Tensor& tensor, bool parameter);
  void check_unchanged() const;

  ModelContext& context_;
  std::string name_;
  Made made_;
  std::vector<Variable*> variables_;  // in the order of the module
  std::vector<Tensor> claimed_;       // their tensors, which nobody else may adopt meanwhile
  int64_t calls_ = 0;
};

}  // namespace muster::inline v0_1
