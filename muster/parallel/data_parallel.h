// A module of LibTorch whose gradients are the mean over all workers. Cluster::data_parallel()
// makes it. Thread safety: belongs to the thread of its Cluster.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Options of Cluster::data_parallel(); the same on all workers.
struct DataParallelOptions {
  // As messages call the module; empty: "module 0", "module 1", in the order of the calls.
  std::string name{};
  // What becomes of buffers, such as the statistics of BatchNorm.
  enum class Buffers {
    kAverage,    // each worker has its own; sync_buffers(), save() and join() make them their mean
    kKeep,       // each worker has its own; the chief's are saved
    kBroadcast,  // each forward in training begins with the chief's, as DDP in Python
  };
  Buffers buffers = Buffers::kAverage;
};

// What a DataParallel holds, whatever the class of its module.
class MUSTER_EXPORT DataParallelModule {
 public:
  virtual ~DataParallelModule() = default;
  // Before a forward, and around backwards whose gradients stay with their worker.
  virtual void prepare() = 0;
  virtual void count_forward() = 0;
  virtual void pause() = 0;
  virtual void resume() = 0;
  virtual void sync_buffers() = 0;
};

// While a NoSync lives, backward() adds gradients up in their worker. The next backward() after it
// averages all of them.
class NoSync {
 public:
  explicit NoSync(std::shared_ptr<DataParallelModule> module) : module_(std::move(module)) {
    module_->pause();
  }
  ~NoSync() { module_->resume(); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  std::shared_ptr<DataParallelModule> module_;
};

// A module that data_parallel() wrapped. Copies share it.
template <typename Net>
class DataParallel {
 public:
  DataParallel(std::shared_ptr<Net> net, std::shared_ptr<DataParallelModule> module)
      : net_(std::move(net)), module_(std::move(module)) {}

  // net(x) is net->forward(x).
  template <typename... Args>
  auto operator()(Args&&... args) const {
    module_->count_forward();
    return operator->()->forward(std::forward<Args>(args)...);
  }
  // net->encode(x): any member.
  Net* operator->() const {
    module_->prepare();
    return net_.get();
  }
  // The module itself.
  const std::shared_ptr<Net>& module() const { return net_; }

  // Gradient accumulation: { auto alone = net.no_sync(); loss.backward(); }
  NoSync no_sync() const { return NoSync(module_); }
  // Buffers become what DataParallelOptions::buffers says, before an evaluation, say. All workers
  // call it together.
  void sync_buffers() const { module_->sync_buffers(); }

 private:
  std::shared_ptr<Net> net_;
  std::shared_ptr<DataParallelModule> module_;
};

// What Cluster::data_parallel() does for a std::shared_ptr to a module, or a module holder.
template <typename Module, typename Wrap>
auto make_data_parallel(const Module& module, const Wrap& wrap) {
  if constexpr (torch::detail::is_module_holder<Module>::value) {
    return make_data_parallel(module.ptr(), wrap);
  } else {
    using Net = typename Module::element_type;
    static_assert(std::is_base_of_v<torch::nn::Module, Net>,
                  "data_parallel() needs a torch::nn::Module, in a std::shared_ptr or a holder "
                  "that TORCH_MODULE() made");
    return DataParallel<Net>(module, wrap(module));
  }
}

}  // namespace muster::inline v0_1
