// Where and how a model trains, as a description: its constructor opens and reads nothing.
// Thread safety: immutable values, shared by pointer.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/collectives/transport.h"
#include "muster/distribute/per_replica.h"
#include "muster/distribute/replica_call.h"
#include "muster/losses/reduction.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/batch.h"
#include "muster/tensor/device.h"
#include "muster/tensor/reduce_op.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1 {
class Dataset;
class Metric;
struct InputContext;
}  // namespace muster::inline v0_1

namespace muster::inline v0_1::cluster {
struct ResolvedCluster;
}

namespace muster::inline v0_1::distribute {

class DistributedDataset;
class Replica;
class Scope;
struct ParameterServerOptions;
struct ScopeOptions;
struct StartOptions;

// Options of Strategy::run().
struct RunOptions {
  // Whether layers train (Dropout, BatchNorm) and gradients are kept; minimize() needs it.
  bool training = true;
  // kMean: the loss of a replica is the mean over its examples, and the step minimizes the mean
  // over the examples of all replicas, as if one replica had them all. kSum: losses and gradients
  // are added.
  ReduceOp loss_reduction = ReduceOp::kMean;
};

// Calls the model function once, on zero rows of the batch format that the chief sent, to create
// its variables in `variables`. Returns what it trains.
using BuildModel =
    std::function<optim::TrainOp(VariableStore& variables, const std::string& batch_form)>;

class MUSTER_EXPORT Strategy : public std::enable_shared_from_this<Strategy> {
 public:
  virtual ~Strategy() = default;
  // "OneDevice", "Mirrored", "MultiWorkerMirrored", "ParameterServer".
  virtual std::string_view name() const = 0;
  // Whether workers are peers that train in step: a cluster of workers only is then valid, and
  // worker 0 is the chief.
  virtual bool multi_worker() const = 0;
  // How the weights are distributed on tasks of type "ps", which the cluster must then have;
  // nullptr if replicas hold the weights. The strategy owns it.
  virtual const ParameterServerOptions* servers() const { return nullptr; }
  bool needs_servers() const { return servers() != nullptr; }
  // The device of the first replica of this process. Work for one replica, such as prediction, runs
  // there.
  virtual Device device() const = 0;
  // Connects the replicas of all processes; use each replica of this process on its own thread.
  // Throws InvalidArgument when the cluster does not fit the strategy, Timeout with the names of
  // missing tasks, Unavailable when an address is in use.
  virtual std::vector<std::unique_ptr<Replica>> start_replicas(
      const StartOptions& options) const = 0;
  // The same for a strategy with one replica in this process. Throws InvalidArgument for a strategy
  // with several.
  std::unique_ptr<Replica> start(const StartOptions& options) const;

  // Serves weights on a task of type "ps" until the run ends. Throws InvalidArgument if the
  // strategy has no servers, and the error that ended the run.
  virtual void serve(const StartOptions& options, const BuildModel& build) const;
  // How long a task that lost its peers tries to rejoin them without making a step; 0: it ends, and
  // is restarted together with them.
  virtual Seconds restart_timeout() const { return Seconds(0); }

  // --- loops written by hand: muster/loop defines these functions; see the example in loop/scope.h
  // ---
  // Connects the replicas and enters the strategy on this thread; the functions below work until
  // the scope ends. Throws the errors of start_replicas(); InvalidArgument inside the scope of
  // another strategy.
  Scope scope() const;
  Scope scope(const ScopeOptions& options) const;
  int num_replicas_in_sync() const;

  // Calls `fn(args...)` on every replica of this process, in a ReplicaContext. Of a PerReplica each
  // replica gets its own value. A Batch is passed as (features, labels), or as features only,
  // depending on the parameters of `fn`. All other arguments are shared and stay on their device.
  // When `fn` has returned, the work that minimize() described is done: one backward pass, one
  // reduction over all replicas, one update. Returns the results by replica (Tensors detached from
  // the graph), or nothing if `fn` returns nothing. The first call that trains calls `fn` twice:
  // the first time only creates the variables, and must create all of them. When `fn` throws on one
  // replica, the other replicas end too, the scope is over, and the first error is thrown.
  template <typename Fn, typename... Args>
  auto run(const RunOptions& options, Fn&& fn, const Args&... args) const;
  // The same with the default options.
  template <typename Fn, typename... Args>
  requires(!std::is_same_v<std::decay_t<Fn>, RunOptions>) auto run(Fn&& fn,
                                                                   const Args&... args) const {
    return run(RunOptions(), std::forward<Fn>(fn), args...);
  }

  // Returns the sum or mean over all replicas, on the device of the first replica here. With an
  // `axis`, reduces over that axis of the values as well: a mean then counts every element once,
  // even if replicas have different numbers of them. Throws InvalidArgument for a mean of whole
  // numbers and for values of different shapes or dtypes.
  Tensor reduce(ReduceOp op, const PerReplica<Tensor>& value,
                std::optional<int64_t> axis = {}) const;
  // Returns one metric of the data of all replicas.
  Metric reduce(const PerReplica<Metric>& value) const;
  // Joins the values of all replicas along `axis`. Sizes may differ only in this axis.
  Tensor gather(const PerReplica<Tensor>& value, int64_t axis = 0) const;

  // Divides a `dataset` that describes all data; batch(n) in it means n examples over all replicas.
  // A data set with its own shard() belongs to this process, and batch(n) means n for each replica.
  DistributedDataset distribute(const Dataset& dataset) const;
  // `fn` describes the data of the process that the context names, in batches for each replica.
  DistributedDataset distribute_from_function(
      const std::function<Dataset(const InputContext&)>& fn) const;

 private:
  size_t num_local_replicas() const;
  void check_replicas(std::optional<size_t> given) const;
  void run_on_replicas(const RunOptions& options, const std::function<void(size_t)>& body,
                       const std::function<int64_t(size_t)>& rows,
                       const std::function<const Batch*(size_t)>& batch) const;
};

// RunConfig holds a strategy in this form.
using StrategyPtr = std::shared_ptr<const Strategy>;

// One replica in this process, on `device`: "cpu", "cuda" or "cuda:1". Throws InvalidArgument for a
// device that this machine does not have.
MUSTER_EXPORT StrategyPtr one_device(const std::string& device = "cpu");

// Returns the devices of the replicas of one process: the named devices, as by parse_devices(), or
// the CPU for each of `replicas` if none is named. Throws the errors of parse_devices(), and
// InvalidArgument for devices of several kinds.
MUSTER_EXPORT std::vector<Device> replica_devices(const std::vector<std::string>& devices,
                                                  int replicas);

// Throws InvalidArgument if the task is not a worker: "a task of type "ps" does not train".
MUSTER_EXPORT void check_worker(const cluster::ResolvedCluster& task, const std::string& verb);

// Options of mirrored(). Fields shared with CommunicationOptions have the same meaning.
struct MirroredOptions {
  // The number of threads of this process that train in step, on the CPU. `devices` overrides it.
  // Without both there is one on each GPU that this process sees, and without GPUs one on the CPU.
  std::optional<int> replicas = {};
  std::vector<std::string> devices = {};
  int64_t bytes_per_pack = 2 * 1024 * 1024;  // not measured: threads share the same memory
  DType wire_dtype = kFloat32;
  Seconds timeout{1800};
  Seconds progress_timeout{300};
  Seconds save_timeout{1800};
};
// Several replicas in one process; the log names their devices. Each replica is a thread with its
// own variables, which are equal on all replicas: gradients are summed, and every replica makes the
// same update. All replicas call the model function at the same time, so the objects that it
// captures must be safe for concurrent use. The process's thread pool is divided between the
// replicas.
MUSTER_EXPORT StrategyPtr mirrored(const MirroredOptions& options = {});

// Options of multi_worker_mirrored(): replicas, transport, buckets and timeouts.
struct CommunicationOptions {
  // The number of threads of each worker that train in step; the same on all workers. `devices`
  // overrides it.
  int local_replicas = 1;
  // One replica of each worker on each device: {"cuda"} means every GPU this process sees,
  // {"cuda:0", "cuda:2"} these two. Empty: all on the CPU.
  std::vector<std::string> devices = {};
  // How workers exchange gradients. With kAuto, MUSTER_TRANSPORT (auto, tcp, shared_memory or nccl)
  // chooses, if it is set.
  Transport implementation = Transport::kAuto;
  // The size of a gradient bucket, in bytes; 0 puts all gradients into one bucket. Unset: chosen
  // from the measured cost of an all-reduce when the model was built; the log shows it.
  std::optional<int64_t> bytes_per_pack = {};
  // The type in which float32 gradients are sent: kFloat32, or kBFloat16 for half the bytes,
  // rounded when sent and added as float32. Other exchanges of a step, and float64 gradients, stay
  // exact. The same on all workers.
  DType wire_dtype = kFloat32;
  // When one collective gives up; lost peers are noticed much earlier.
  Seconds timeout{1800};
  Seconds heartbeat_interval{1};  // how often a task reports that it is alive
  Seconds heartbeat_timeout{6};   // silence after which a task is considered lost
  // A live task that keeps the others waiting at a barrier (of a save, an evaluation, the end)
  // without a new step for this long is considered stuck. In a collective, `timeout` applies
  // instead.
  Seconds progress_timeout{300};
  // While the chief saves, the other workers wait for it outside of collectives: at most this long.
  Seconds save_timeout{1800};
};

// `local_replicas` replicas in each worker process of the cluster, kept in step by all-reduce. The
// first replica of the chief, or of worker 0 without a chief, saves. Without a cluster it equals
// mirrored().
MUSTER_EXPORT StrategyPtr multi_worker_mirrored(const CommunicationOptions& options = {});

// Parses the value of a flag: "one_device"; "mirrored" (the default of mirrored()) or "mirrored:4"
// (4 replicas); "multi_worker" or "multi_worker:4" (4 replicas in each worker); with devices
// "one_device:cuda:1", "mirrored:cuda" (every GPU), "mirrored:cuda:0,cuda:2", "multi_worker:cuda";
// and, in programs that link muster::servers, "parameter_server". Throws InvalidArgument with the
// list of these.
MUSTER_EXPORT StrategyPtr strategy_by_name(const std::string& name);

template <typename Fn, typename... Args>
auto Strategy::run(const RunOptions& options, Fn&& fn, const Args&... args) const {
  const auto invoke = [&]([[maybe_unused]] size_t replica) -> decltype(auto) {
    return replica_call::call(fn, replica_call::value_of(args, replica)...);
  };
  const auto rows = [&]([[maybe_unused]] size_t replica) {
    int64_t found = -1;
    (void)((found = replica_call::rows_of(args, replica), found >= 0) || ...);
    return found >= 0 ? found : 1;
  };
  const auto batch = [&]([[maybe_unused]] size_t replica) {
    const Batch* found = nullptr;
    (void)((found = replica_call::batch_of(args, replica), found != nullptr) || ...);
    return found;
  };
  (check_replicas(replica_call::replicas_of(args)), ...);
  using Result = std::decay_t<decltype(invoke(0))>;
  if constexpr (std::is_void_v<Result>) {
    run_on_replicas(options, invoke, rows, batch);
  } else {
    std::vector<std::optional<Result>> results(num_local_replicas());
    run_on_replicas(
        options,
        [&](size_t replica) { results[replica] = replica_call::without_graph(invoke(replica)); },
        rows, batch);
    std::deque<Result> all;
    for (auto& result : results) all.push_back(std::move(*result));
    return PerReplica<Result>(std::move(all));
  }
}

}  // namespace muster::inline v0_1::distribute
