// A chief schedules calls of functions on workers; the weights are on parameter servers:
//
//   distribute::ClusterCoordinator coordinator(distribute::parameter_server(), {});
//   const auto data = coordinator.create_per_worker_dataset("train", [](const InputContext&)
//   {...}); const auto train = coordinator.define(
//       "train",
//       [&](const distribute::RemoteCall& call) -> std::vector<Tensor> {
//         const Tensor loss =
//             losses::mean_squared_error(call.batch().labels, model(call.batch().features));
//         adam.minimize(loss);
//         return {loss};
//       },
//       {.training = true, .data = data});
// if (coordinator.serve()) return;  // a worker or a server: until the chief ends the run
//   for (int i = 0; i < 1000; ++i) coordinator.schedule(train);
//   coordinator.join();
//
// All tasks run the same program, because a call names its function instead of sending code.
// Thread safety: a coordinator belongs to the thread that made it; other classes are values.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/calls/remote_call.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/data/dataset.h"
#include "muster/distribute/strategy.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/input_context.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::ps {
class ClosureResult;
}

namespace muster::inline v0_1::distribute {

// Options of ClusterCoordinator. They must be the same in all tasks.
struct CoordinatorOptions {
  uint64_t seed = 0;  // for initial values, shuffles and random numbers of layers
  // Where the chief saves checkpoints and looks for the newest good one to continue from; empty:
  // none.
  std::string model_dir{};
  int keep_checkpoint_max = 5;  // the newest ones; 0 keeps all
  // The state the run begins with when neither the servers nor model_dir have newer values: all or
  // some variables and slots by name, and the step. Only the chief's value is used.
  std::optional<Checkpoint> initial_state{};
  // On the chief: texts to save with the weights. Called at each save.
  std::function<std::map<std::string, std::string>()> notes{};
  // On the chief: called at each save. What it returns, if anything, is called before the
  // checkpoint is there, by the thread that writes it: for files that belong next to it. It may
  // change the notes. If it throws an Error, the save has failed.
  std::function<std::function<void(std::map<std::string, std::string>& notes)>()> beside{};
  Seconds join_timeout{600};  // how long to wait for servers, the chief and a first worker
  // The largest number of unfinished calls: schedule() waits while the queue is full.
  int64_t queue_capacity = 262144;
  // How many times a call may begin when its workers are lost one after another.
  int max_attempts = 5;
  // Whether this task was asked to stop. When not set: whether Ctrl-C or SIGTERM came, in programs
  // that run_main() or guard_main() runs.
  std::function<bool()> cancelled{};
  // The environment that holds TF_CONFIG; default: that of the process.
  std::optional<Environment> environment{};
};

// Options of ClusterCoordinator::save().
struct CoordinatorSaveOptions {
  // How many saves in a row may fail, like SaveOptions::max_failed_saves of a loop by hand: the run
  // continues without this checkpoint, logs a warning, and the next save tries again. 0, the
  // default, allows no failure. The first save of a coordinator, and a save after the task was
  // asked to stop, must succeed in any case. 0 or more.
  int64_t max_failed_saves = 0;
  // Whether save() returns when each server has copied its part, while servers and a thread of the
  // chief write the checkpoint. The next save(), end_saving() and the end of the coordinator wait
  // for it; schedule(), join(), fetch(), done() and save() throw its error; at the end of the
  // coordinator it decides the exit code of run_main(). The first save, and a save after the task
  // was asked to stop, wait in any case.
  bool asynchronous = false;
};

// The data set that create_per_worker_dataset() made.
class PerWorkerDataset {
 public:
  // For the coordinator only.
  explicit PerWorkerDataset(int index) : index_(index) {}
  int index() const { return index_; }

 private:
  int index_;
};

// Options of ClusterCoordinator::define().
struct FunctionOptions {
  // Whether the function calls minimize() and its layers train. Exactly one function does. Each
  // task calls it once on zero rows to create the variables; that call does not count. Other
  // functions run without gradients, on the current weights.
  bool training = false;
  // The data set that RemoteCall::batch() reads.
  std::optional<PerWorkerDataset> data{};
  // For a training function: the value of RemoteCall::arguments() while the model is built.
  std::vector<Tensor> arguments = {};
  ReduceOp loss_reduction = ReduceOp::kMean;
  // For a training function: whether to append the loss of the step, including the losses of layers
  // and regularizers, to the results of a call, as a float64 scalar.
  bool returns_step_loss = false;
};
// Returns the results of a call. They are sent to the chief, so each is copied to the CPU.
using RemoteFunction = std::function<std::vector<Tensor>(const RemoteCall& call)>;

// The name of a function that define() registered.
class RemoteFunctionName {
 public:
  // For the coordinator only.
  explicit RemoteFunctionName(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

// The result of a scheduled call, once it is there.
class MUSTER_EXPORT RemoteValue {
 public:
  // For the coordinator only.
  explicit RemoteValue(std::shared_ptr<const ps::ClosureResult> result)
      : result_(std::move(result)) {}
  // Whether the call has ended, so that fetch() does not wait.
  bool ready() const;

 private:
  friend class ClusterCoordinator;
  std::shared_ptr<const ps::ClosureResult> result_;
};

class MUSTER_EXPORT ClusterCoordinator {
 public:
  // Reads the cluster; connects to no task yet. Without a cluster everything runs in this process:
  // schedule() calls the function. Throws InvalidArgument for a strategy other than
  // parameter_server(), for its options max_staleness and replicas_to_aggregate, which calls do not
  // support, and for a cluster without servers or without workers.
  explicit ClusterCoordinator(StrategyPtr strategy, CoordinatorOptions options = {});
  // On the chief, ends the run: calls that no worker has begun are cancelled, and workers and
  // servers end with exit code 0. When an exception leaves the coordinator's scope, workers and
  // servers are notified and end as well.
  ~ClusterCoordinator();
  ClusterCoordinator(const ClusterCoordinator&) = delete;
  ClusterCoordinator& operator=(const ClusterCoordinator&) = delete;

  // --- in all tasks, before serve() ---
  // Registers `fn` under a name, by which it is scheduled. What `fn` captures belongs to this task;
  // tasks share only the weights. Throws InvalidArgument when the name is taken.
  RemoteFunctionName define(const std::string& name, RemoteFunction fn,
                            const FunctionOptions& options = {});
  // Registers a data set that each worker makes for itself by `fn`. The context tells which of how
  // many workers it is. Unless `fn` divides the data, each worker reads all of it, in an order of
  // its own. A worker that restarts begins its data set again. Elements must be batches.
  PerWorkerDataset create_per_worker_dataset(
      const std::string& name, std::function<Dataset(const InputContext& context)> fn);
  // Registers a data set that describes all data. Each worker reads its part again and again, as
  // data sets are divided between workers; a single worker reads what Strategy::distribute()
  // returns. `batch(n)` then means n examples for each call.
  PerWorkerDataset distribute(const std::string& name, const Dataset& dataset);
  // On a worker: runs calls until the chief ends the run, then returns true. A worker that loses
  // the chief or a server tries to rejoin the run for ParameterServerOptions::restart_timeout. On a
  // task of type "ps": holds weights, with the same return value and timeout. On the chief: builds
  // the model, continues from the state of the servers or from model_dir, and returns false; it
  // returns true if this job's run (MUSTER_JOB_ID) has already ended and its servers have stopped.
  // Throws InvalidArgument without a training function or when the program differs between tasks;
  // Timeout and PeerLost with the name of the missing task; Cancelled when this task was asked to
  // stop; and the error that ended the run.
  bool serve();

  // --- on the chief, after serve() ---
  // Returns the number of workers that run calls.
  int num_workers() const;
  // Schedules a call of the function with these arguments on some worker; waits only while the
  // queue is full. If an earlier call has failed, throws its error, once, and schedules nothing.
  // When a worker is lost, its call begins again on another worker. Each call therefore runs at
  // least once and has one result. An update is applied whole, but an update that was committed
  // just before its worker was lost is applied a second time.
  RemoteValue schedule(const RemoteFunctionName& function, std::vector<Tensor> arguments = {});
  // Waits until all calls have ended. Throws the error of the first failed call, once; calls that
  // no worker had begun by then are cancelled. A program that catches the error may schedule again.
  // Like schedule(), fetch() and done(), it saves in model_dir if a server was asked to stop, and
  // throws what save() throws.
  // Like all methods that wait, it throws PeerLost with the name of a lost server, after which the
  // program must be started again; and Timeout when there is no worker for join_timeout at the
  // beginning, or for restart_timeout later. When this task was asked to stop, it cancels the calls
  // that no worker has begun, saves in model_dir, ends the run and throws Cancelled.
  void join();
  // Whether all calls have ended.
  bool done();
  // Waits for the results of a call. Throws the error of the function, or Cancelled.
  std::vector<Tensor> fetch(const RemoteValue& value);

  // Returns the number of updates so far, including those of the restored checkpoint.
  int64_t step();
  // Returns the value of a variable after the same update on all servers. It fetches everything a
  // checkpoint holds. Throws NotFound with the names of all variables.
  Tensor variable(const std::string& name);
  // Returns all variables, slots and the step, after the same update on all servers.
  Checkpoint state();
  // Returns CoordinatorOptions::notes of the checkpoint in model_dir that this run continues from,
  // even if the servers have made more steps since; empty without a checkpoint.
  const std::map<std::string, std::string>& restored_notes() const;
  // Saves weights, slots and step as model_dir/model.ckpt-<step>, the file that an Estimator
  // writes, all after the same update; calls continue meanwhile. When it returns, the file is
  // there, unless CoordinatorSaveOptions::asynchronous is set. Returns its prefix, or "" when this
  // save failed and CoordinatorSaveOptions::max_failed_saves allows it. Throws the errors of
  // Scope::save(), and InvalidArgument without a model_dir or for max_failed_saves < 0.
  std::string save(const CoordinatorSaveOptions& options = {});
  // Waits for an asynchronous save, and returns whether the last save has succeeded. Throws its
  // error.
  bool end_saving();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::distribute
