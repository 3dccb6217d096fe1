// The workers of a run, for programs that keep LibTorch's modules, optimizers and loop.
//
//   muster::Cluster cluster;                       // finds TF_CONFIG, torchrun, Slurm, MPI, ...
//   auto net = cluster.data_parallel(model);       // model: a torch::nn::Module
//   for (auto& [x, y] : my_data(cluster.rank(), cluster.size())) {
//     adam.zero_grad();
//     my_loss(net(x), y).backward();               // gradients are the mean over all workers
//     adam.step();                                 // so each worker makes the same update
//   }
//
// Every worker makes the same calls in the same order; one that does not is told, with both calls.
// A process without a launcher is a cluster of one, and computes what it computed without Muster.
// Thread safety: belongs to the thread that made it, on which backward() runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/distribute/strategy.h"
#include "muster/metrics/metric.h"
#include "muster/parallel/data_parallel.h"
#include "muster/parallel/worker_data.h"
#include "muster/tensor/device.h"
#include "muster/tensor/reduce_op.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

class LoopCheckpoint;
struct LoopCheckpointOptions;

// Options of a Cluster.
struct ClusterOptions {
  // Where modules and gradients of this process are: "cpu", "cuda:1"; "cuda" is the GPU that the
  // launcher gave this process.
  std::string device = "cpu";
  // How workers exchange gradients. `local_replicas` and `devices` stay as they are: a process is
  // one worker.
  distribute::CommunicationOptions communication{};
  Seconds join_timeout{600};  // how long to wait for all workers to appear
  // Whether your program asks this worker to stop: should_stop() tells it on all workers, and true
  // ends a wait for workers that did not appear. request_stop() asks too, and so do Ctrl-C and
  // SIGTERM in programs that run_main() or guard_main() runs.
  std::function<bool()> cancelled{};
  // Where TF_CONFIG and the variables of launchers are read from; the process's own environment
  // when not set.
  std::optional<Environment> environment{};
};

class MUSTER_EXPORT Cluster {
 public:
  // Finds the cluster of this process, waits until all workers are there, and connects them. With
  // several workers, LibTorch computes in this process with as many threads as MUSTER_THREADS or
  // OMP_NUM_THREADS says, or with its share of the machine's cores. Throws
  // InvalidArgument for a TF_CONFIG or variables of a launcher that do not describe one, and in a
  // task that is not a worker; Timeout naming the workers that did not appear; Unavailable when an
  // address is in use.
  explicit Cluster(const ClusterOptions& options = {});
  // The clean end of the run, of which join() is a part: call join() after the loop yourself where
  // checkpoints and optimizers are to take part in it. Where an exception leaves the scope of the
  // Cluster, the other workers are told, and end too.
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // This worker's number, from 0 to size() - 1.
  int rank() const;
  int size() const;
  // Whether this worker should print and write files for all: rank 0.
  bool is_chief() const;
  Device device() const;
  // "MultiWorkerMirrored: worker 0 (1 of 2, chief)", for logs.
  std::string describe() const;

  // Wraps a module, or a module holder: parameters and buffers become the chief's, and from now on
  // each backward() that reaches the module's parameters leaves in their gradients the mean over
  // the workers that have data. Build the module alike on all workers, move it to device() before,
  // and call it through what this returns. Several modules may be wrapped. Throws InvalidArgument
  // for a module without parameters, one on another device, one that was wrapped before, and where
  // workers built different ones: the message names the first parameter that differs, with both
  // shapes.
  template <typename Module>
  auto data_parallel(const Module& module, const DataParallelOptions& options = {}) {
    return make_data_parallel(module, [&](std::shared_ptr<torch::nn::Module> plain) {
      return wrap(std::move(plain), options);
    });
  }

  // The sum or mean over all workers, given to each. Throws InvalidArgument where workers bring
  // different shapes or dtypes, and for a mean of whole numbers.
  Tensor all_reduce(const Tensor& value, ReduceOp op = ReduceOp::kSum);
  // What the metrics of all workers have seen together.
  Metric all_reduce(const Metric& value);
  // The chief's value, given to all. The workers bring tensors of one shape and dtype.
  Tensor broadcast(const Tensor& value);
  // The values of all workers, by rank, given to each; they may differ in size along `axis`.
  std::vector<Tensor> gather(const Tensor& value, int64_t axis = 0);
  // Returns when all workers have come here.
  void barrier();

  // Whether a worker was asked to stop. It is the same on all workers after the same call or
  // backward(), so that all leave their loops after the same step.
  bool should_stop() const;

  // This worker has no more data: it takes part in the backward() of the others with weight zero,
  // until all have come here. Then modules, and the optimizers that a checkpoint() knows, are those
  // of a worker that trained to the end. Throws
  // InvalidArgument where another worker makes a call that it cannot take part in: all_reduce(),
  // say.
  void join();

  // This worker's part of a data set that describes the data of all workers: batch(n) and
  // global_batch(n) mean n examples over all of them, so each step has the same examples on any
  // number of workers. Files or rows are divided by the data set's AutoShardPolicy. All workers
  // call it together. Throws InvalidArgument where their data sets differ.
  WorkerData distribute(const Dataset& dataset);

  // Checkpoints of this loop in `directory`: what is added to the result is saved and restored. See
  // LoopCheckpoint.
  LoopCheckpoint checkpoint(const std::string& directory);
  LoopCheckpoint checkpoint(const std::string& directory, const LoopCheckpointOptions& options);

  class Impl;

 private:
  friend class LoopCheckpoint;
  std::shared_ptr<DataParallelModule> wrap(std::shared_ptr<torch::nn::Module> module,
                                           const DataParallelOptions& options);

  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1
