// Where and how a model trains, as a description: constructing one opens and reads nothing.
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
  // kMean: the loss of a replica is the mean over its examples; the step is that of the mean over
  // the examples of all replicas, as if one had them all. kSum: losses and gradients are added.
  ReduceOp loss_reduction = ReduceOp::kMean;
};

// Calls the model function once, on zero rows of the form of batch that the chief told, so that its
// variables come into being in `variables`, and returns what it trains.
using BuildModel =
    std::function<optim::TrainOp(VariableStore& variables, const std::string& batch_form)>;

class MUSTER_EXPORT Strategy : public std::enable_shared_from_this<Strategy> {
 public:
  virtual ~Strategy() = default;
  // "OneDevice", "Mirrored", "MultiWorkerMirrored", "ParameterServer".
  virtual std::string_view name() const = 0;
  // Whether workers are peers that train in step: then a cluster of workers alone is valid, worker
  // 0 being the chief.
  virtual bool multi_worker() const = 0;
  // How the weights live on tasks of type "ps", so that a cluster must have some; nullptr where
  // replicas have them. The strategy owns it.
  virtual const ParameterServerOptions* servers() const { return nullptr; }
  bool needs_servers() const { return servers() != nullptr; }
  // Where the first replica of this process is; what needs one replica alone, as predictions do, is
  // computed there.
  virtual Device device() const = 0;
  // Brings the replicas together; each replica of this process is to be used by a thread of its
  // own. Throws InvalidArgument when the cluster does not suit the strategy, Timeout
  // naming who did not appear, Unavailable when an address is in use.
  virtual std::vector<std::unique_ptr<Replica>> start_replicas(
      const StartOptions& options) const = 0;
  // The same for a strategy of one replica in this process. Throws InvalidArgument for one of
  // several.
  std::unique_ptr<Replica> start(const StartOptions& options) const;

  // What a task of type "ps" does: serves weights until the run is over. Throws InvalidArgument
  // where the strategy has no servers, and what ends the run.
  virtual void serve(const StartOptions& options, const BuildModel& build) const;
  // For how long without a step a task that lost the others may try to join them again; 0: it ends,
  // and is started again together with them.
  virtual Seconds restart_timeout() const { return Seconds(0); }

  // --- loops written by hand: muster/loop has them, and loop/scope.h shows one ---
  // Brings the replicas together and enters the strategy on this thread; what follows works until
  // the scope ends. Throws what start_replicas() throws; InvalidArgument inside the scope of
  // another strategy.
  Scope scope() const;
  Scope scope(const ScopeOptions& options) const;
  int num_replicas_in_sync() const;

  // Calls `fn(args...)` on every replica of this process, in a ReplicaContext; of a PerReplica each
  // gets its own value, a Batch goes to a function of (features, labels) as these two and to one of
  // features without the labels, everything else is shared, and stays on the device it is on. What
  // minimize() describes inside is done when `fn` returns: one backward, one reduction over all
  // replicas, one update. Returns the results by replica, a Tensor without its graph; nothing when
  // `fn` returns nothing. The first call that trains calls `fn` twice: the first time makes the
  // variables, all of which must come up in it, and counts for nothing. When `fn` throws on one
  // replica, the others end too, and the scope is over; what the first threw is thrown.
  template <typename Fn, typename... Args>
  auto run(const RunOptions& options, Fn&& fn, const Args&... args) const;
  // The same with the default options.
  template <typename Fn, typename... Args>
  requires(!std::is_same_v<std::decay_t<Fn>, RunOptions>) auto run(Fn&& fn,
                                                                   const Args&... args) const {
    return run(RunOptions(), std::forward<Fn>(fn), args...);
  }

  // The sum or mean over all replicas, on the device of the first one here. With an `axis`, over
  // that axis of the values as well: a mean then counts every element once, also when replicas
  // bring different numbers of them. Throws InvalidArgument for a mean of whole numbers and for
  // values of different shapes or dtypes.
  Tensor reduce(ReduceOp op, const PerReplica<Tensor>& value,
                std::optional<int64_t> axis = {}) const;
  // What the metrics of all replicas have seen together.
  Metric reduce(const PerReplica<Metric>& value) const;
  // The values of all replicas one after the other along `axis`, the only one in which their sizes
  // may differ.
  Tensor gather(const PerReplica<Tensor>& value, int64_t axis = 0) const;

  // `dataset` describes all data; batch(n) in it means n examples over all replicas. What a data
  // set that is sharded by hand gives is this process's, and batch(n) is for each replica.
  DistributedDataset distribute(const Dataset& dataset) const;
  // `fn` describes the data of the process the context names, in batches for each replica.
  DistributedDataset distribute_from_function(
      const std::function<Dataset(const InputContext&)>& fn) const;

 private:
  size_t num_local_replicas() const;
  void check_replicas(std::optional<size_t> given) const;
  void run_on_replicas(const RunOptions& options, const std::function<void(size_t)>& body,
                       const std::function<int64_t(size_t)>& rows,
                       const std::function<const Batch*(size_t)>& batch) const;
};

// How RunConfig holds a strategy.
using StrategyPtr = std::shared_ptr<const Strategy>;

// One replica in this process, on `device`: "cpu", "cuda" or "cuda:1". Throws InvalidArgument for a
// device that is not there.
MUSTER_EXPORT StrategyPtr one_device(const std::string& device = "cpu");

// The devices of the replicas of one process: those that are named, as by parse_devices(); without
// any, the CPU for each of `replicas`. Throws what parse_devices() throws, and InvalidArgument for
// devices of several kinds.
MUSTER_EXPORT std::vector<Device> replica_devices(const std::vector<std::string>& devices,
                                                  int replicas);

// Throws InvalidArgument for a task that is no worker: "a task of type "ps" does not train".
MUSTER_EXPORT void check_worker(const cluster::ResolvedCluster& task, const std::string& verb);

// Options of mirrored(). What it shares with CommunicationOptions means the same there, where it is
// explained.
struct MirroredOptions {
  // Threads of this process that train in step, on the CPU. What `devices` names counts. With
  // neither there is one on each GPU that this process sees, and without GPUs one on the CPU.
  std::optional<int> replicas = {};
  std::vector<std::string> devices = {};
  int64_t bytes_per_pack = 2 * 1024 * 1024;  // not measured: threads share the same memory
  DType wire_dtype = kFloat32;
  Seconds timeout{1800};
  Seconds progress_timeout{300};
  Seconds save_timeout{1800};
};
// Several replicas in one process; the log says on which devices. Each is a thread with variables
// of its own that are equal on all: gradients are summed, every replica makes the same update. The
// model function is called by all of them at the same time, and the process's threads are shared
// out among them; so what it captures must allow that.
MUSTER_EXPORT StrategyPtr mirrored(const MirroredOptions& options = {});

// Options of multi_worker_mirrored(): replicas, transport, buckets and patience.
struct CommunicationOptions {
  // Threads of each worker that train in step; the same on all workers. What `devices` names
  // counts.
  int local_replicas = 1;
  // A replica of each worker on each: {"cuda"} is every GPU this process sees, {"cuda:0", "cuda:2"}
  // these two. Empty: all on the CPU.
  std::vector<std::string> devices = {};
  // How workers exchange gradients. kAuto is also what MUSTER_TRANSPORT says (auto, tcp,
  // shared_memory or nccl), when it is set.
  Transport implementation = Transport::kAuto;
  // Of a gradient bucket; 0 puts all gradients into one. Unset: chosen by what an all-reduce was
  // measured to cost when the model was built, which a log line says.
  std::optional<int64_t> bytes_per_pack = {};
  // How float32 gradients travel: kFloat32, or kBFloat16 for half the bytes, rounded on the way and
  // added as float32. What else a step exchanges, and gradients of float64, stay exact. The same on
  // all workers.
  DType wire_dtype = kFloat32;
  // After which one collective gives up; dead peers are noticed long before.
  Seconds timeout{1800};
  Seconds heartbeat_interval{1};  // how often a task says that it is alive
  Seconds heartbeat_timeout{6};   // silence after which a task counts as lost
  // A live task that keeps the others at a barrier (of a save, an evaluation, the end) without a
  // new step for so long counts as stuck; in a collective, `timeout` counts.
  Seconds progress_timeout{300};
  // While the chief saves, the others wait for it and not in a collective: for so long at most.
  Seconds save_timeout{1800};
};

// `local_replicas` replicas in each worker process of the cluster, kept in step by all-reduce; the
// first one of worker 0, or of the chief where there is one, saves. Alone (no cluster) it is
// mirrored().
MUSTER_EXPORT StrategyPtr multi_worker_mirrored(const CommunicationOptions& options = {});

// For flags: "one_device", "mirrored" (the default of mirrored()) or "mirrored:4" (replicas),
// "multi_worker" or "multi_worker:4" (replicas in each worker); on devices "one_device:cuda:1",
// "mirrored:cuda" (every GPU), "mirrored:cuda:0,cuda:2", "multi_worker:cuda"; and, in programs that
// link muster::servers, "parameter_server". Throws InvalidArgument listing them.
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
