// Checkpoints of a loop over LibTorch's modules and optimizers: whole or absent, whatever is killed
// and whenever, and continued on any number of workers.
//
//   auto checkpoint = cluster.checkpoint("model");
//   checkpoint.add("net", net).add("adam", adam).add("reader", save_place, restore_place);
//   int64_t step = checkpoint.restore();           // 0 where there is none
//   ...
//   checkpoint.save(step);                         // all workers; the chief writes
//
// In the file, a .safetensors that Estimators and `muster inspect checkpoint` read too, parameters
// and buffers have the names "net/fc/weight". Thread safety: belongs to the thread of its Cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/parallel/data_parallel.h"
#include "muster/parallel/grad_scaler.h"
#include "muster/parallel/worker_data.h"

namespace torch::optim {
class Optimizer;
}

namespace muster::inline v0_1 {

class Cluster;

// Options of Cluster::checkpoint().
struct LoopCheckpointOptions {
  int keep_checkpoint_max = 5;  // the newest ones; 0 keeps all
};

// Options of LoopCheckpoint::save().
struct LoopSaveOptions {
  // Whether save() returns when the chief has copied the state, while a thread writes the
  // checkpoint. The next save() waits for it and throws its error; so does the end of this object,
  // which only logs the error. The chief needs memory for its state twice. Choose it for the saves
  // in a loop, and leave it out for the save after the loop. The first save waits in any case. The
  // same on all workers.
  bool asynchronous = false;
};

class MUSTER_EXPORT LoopCheckpoint {
 public:
  // Adds a module: its parameters and buffers. Several things of one name: InvalidArgument. What is
  // added must live as long as this object.
  template <typename Net>
  LoopCheckpoint& add(const std::string& name, const DataParallel<Net>& net) {
    return add_module(name, net.module());
  }
  // Adds a module that data_parallel() does not hold.
  template <typename Module>
  requires torch::detail::is_module_holder<Module>::value LoopCheckpoint& add(
      const std::string& name, const Module& module) {
    return add_module(name, module.ptr());
  }
  // Adds an optimizer: what torch::save() writes of it.
  LoopCheckpoint& add(const std::string& name, torch::optim::Optimizer& optimizer);
  // Adds the scale of a GradScaler, as the numbers "<name>/scale" and "<name>/good_steps".
  LoopCheckpoint& add(const std::string& name, GradScaler& scaler);
  // Adds a number.
  LoopCheckpoint& add(const std::string& name, int64_t& number);
  LoopCheckpoint& add(const std::string& name, double& number);
  // Adds the position of a reader: `save` returns it as text, `restore` takes it back. Each worker
  // has its own. With another number of workers each gets the position that all had in common;
  // where they differed, restore() throws InvalidArgument.
  LoopCheckpoint& add(const std::string& name, std::function<std::string()> save,
                      std::function<void(const std::string&)> restore);

  // Adds the position in a data set. Rows that Muster divides continue at the next example on any
  // number of workers; workers that read files of their own must stay as many, else restore()
  // throws InvalidArgument.
  LoopCheckpoint& add(const std::string& name, const WorkerData& data);

  // Gives what was added the values of the newest good checkpoint, on all workers. Returns its
  // step, and 0 where there is none. All workers call it together, before the first step; the chief
  // reads. Throws InvalidArgument listing what differs where the checkpoint is another program's.
  int64_t restore();
  // Saves what was added as the checkpoint model.ckpt-<step> of the directory, and returns its path
  // without ".safetensors" on the chief, "" on the other workers. All workers call it together,
  // after the same step; workers that have joined take part. Throws NonFinite, and saves
  // nothing, when a parameter or buffer is not finite; Unavailable when another program writes the
  // directory; and what CheckpointManager::save() throws. When it returns, the file is there,
  // unless LoopSaveOptions::asynchronous is set.
  std::string save(int64_t step, const LoopSaveOptions& options = {});

 private:
  friend class Cluster;
  class Impl;
  explicit LoopCheckpoint(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  LoopCheckpoint& add_module(const std::string& name, std::shared_ptr<torch::nn::Module> module);

  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1
