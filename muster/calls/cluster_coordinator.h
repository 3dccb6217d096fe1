// A chief that schedules calls of functions on workers, whose weights live on parameter servers:
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
//   if (coordinator.serve()) return;  // a worker or a server: until the chief is through
//   for (int i = 0; i < 1000; ++i) coordinator.schedule(train);
//   coordinator.join();
//
// All tasks run the same program, so that a call travels as the name of its function.
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

// Options of ClusterCoordinator. The same in all tasks.
struct CoordinatorOptions {
  uint64_t seed = 0;  // of initial values, shuffles and what layers draw
  // Where the chief saves, and continues from the newest good checkpoint; empty: nowhere.
  std::string model_dir{};
  int keep_checkpoint_max = 5;  // the newest ones; 0 keeps all
  // What the run begins with where neither servers nor model_dir have more: variables and slots by
  // name, all or some, and the step. The chief's counts.
  std::optional<Checkpoint> initial_state{};
  // On the chief: what a checkpoint is to hold beside its weights, asked for with each save.
  std::function<std::map<std::string, std::string>()> notes{};
  Seconds join_timeout{600};  // for servers, for the chief and for a first worker
  // Calls that have not ended, at most: schedule() waits for room.
  int64_t queue_capacity = 262144;
  // So often a call begins at most, where its workers are lost one after the other.
  int max_attempts = 5;
  // Whether this task was asked to stop. When not set: whether Ctrl-C or SIGTERM came, in programs
  // that run_main() or guard_main() runs.
  std::function<bool()> cancelled{};
  // Where TF_CONFIG is read from; the process's own environment when not set.
  std::optional<Environment> environment{};
};

// Options of ClusterCoordinator::save().
struct CoordinatorSaveOptions {
  // So many saves in a row may fail, as SaveOptions::max_failed_saves says of a loop by hand: the
  // run goes on without this one, with a warning, and the next save tries again. 0, the default,
  // lets none fail. The first save of a coordinator, and one where the task was asked to stop, must
  // not fail either. 0 or more.
  int64_t max_failed_saves = 0;
};

// What create_per_worker_dataset() gives.
class PerWorkerDataset {
 public:
  // For the coordinator.
  explicit PerWorkerDataset(int index) : index_(index) {}
  int index() const { return index_; }

 private:
  int index_;
};

// Options of ClusterCoordinator::define().
struct FunctionOptions {
  // Whether it calls minimize(), and layers train. Exactly one function does. It is called once on
  // zero rows in each task, to make the variables, which counts for nothing. Others are called
  // without gradients, on the weights as they are then.
  bool training = false;
  // What RemoteCall::batch() is of.
  std::optional<PerWorkerDataset> data{};
  // Of a function that trains: what RemoteCall::arguments() are while the model is built.
  std::vector<Tensor> arguments = {};
  ReduceOp loss_reduction = ReduceOp::kMean;
  // Of a function that trains: whether the loss of the step, with what layers and regularizers add,
  // joins the results of a call as the last one, a float64 scalar.
  bool returns_step_loss = false;
};
// Gives the results of a call; they travel, so each is copied to the CPU.
using RemoteFunction = std::function<std::vector<Tensor>(const RemoteCall& call)>;

// What define() gives.
class RemoteFunctionName {
 public:
  // For the coordinator.
  explicit RemoteFunctionName(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

// What a call that was scheduled will give.
class MUSTER_EXPORT RemoteValue {
 public:
  // For the coordinator.
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
  // Knows the cluster, and connects to nobody yet. Without a cluster all is done in this process:
  // schedule() calls the function. Throws InvalidArgument for a strategy that is not
  // parameter_server(), for options of it that calls do not have (max_staleness,
  // replicas_to_aggregate), and for a cluster without servers or without workers.
  explicit ClusterCoordinator(StrategyPtr strategy, CoordinatorOptions options = {});
  // On the chief, ends the run: what no worker has begun is cancelled, and workers and servers end
  // with 0; where an exception leaves the scope of the coordinator, they learn so and end as well.
  ~ClusterCoordinator();
  ClusterCoordinator(const ClusterCoordinator&) = delete;
  ClusterCoordinator& operator=(const ClusterCoordinator&) = delete;

  // --- in all tasks, before serve() ---
  // Gives `fn` a name, under which it is scheduled. What it captures is this task's: the weights
  // are what tasks share. Throws InvalidArgument when the name is taken.
  RemoteFunctionName define(const std::string& name, RemoteFunction fn,
                            const FunctionOptions& options = {});
  // A data set that each worker makes for itself by `fn`: which of how many workers it is, the
  // context says. Unless `fn` divides it, each worker reads all of it, in an order of its own. A
  // worker that was lost and comes back begins it again. Batches must be batches.
  PerWorkerDataset create_per_worker_dataset(
      const std::string& name, std::function<Dataset(const InputContext& context)> fn);
  // The same of a data set that describes all data: each worker reads its part, as data sets are
  // divided between workers, again and again; one worker what Strategy::distribute() gives. What
  // `batch(n)` gives is n examples for each call.
  PerWorkerDataset distribute(const std::string& name, const Dataset& dataset);
  // In a worker: makes calls until the chief is through, and then is true. It joins the run again
  // when it loses the chief or a server, for ParameterServerOptions::restart_timeout. In a
  // task of type "ps": holds weights, likewise. On the chief: builds the model, continues from what
  // the servers hold, or from model_dir, and is false; true where this job's run (MUSTER_JOB_ID)
  // has ended already and its servers are gone. Throws InvalidArgument without a function
  // that trains, or when the program differs between tasks; Timeout and PeerLost naming who is
  // missing; Cancelled when this task was told to stop; and what ended the run.
  bool serve();

  // --- on the chief, after serve() ---
  // Workers: those that make calls.
  int num_workers() const;
  // Has a worker call the function with these arguments; waits only where the queue is full. If an
  // earlier call has failed, throws its error, once, and schedules nothing. A call whose worker is
  // lost begins again on another one: so it is made at least once, and has one result; each update
  // is whole, but one that was committed just before its worker was lost is made again.
  RemoteValue schedule(const RemoteFunctionName& function, std::vector<Tensor> arguments = {});
  // Waits until all calls have ended. Throws the error of the first that failed, once; those that
  // no worker had begun by then were cancelled. A program that catches it may schedule anew.
  // As all that waits: throws PeerLost naming a server that is gone, after which the program has to
  // be started again, and Timeout when there is no worker for join_timeout at the
  // beginning, or restart_timeout later. When this task was told to stop it cancels what no
  // worker has begun, saves in model_dir, ends the run and throws Cancelled.
  void join();
  // Whether all calls have ended.
  bool done();
  // Waits for the results of a call. Throws its error: that of the function, or Cancelled.
  std::vector<Tensor> fetch(const RemoteValue& value);

  // Updates so far, those of the checkpoint included.
  int64_t step();
  // The value of a variable, as all servers have it behind one and the same update; to know it, all
  // that a checkpoint holds is brought here. Throws NotFound listing those there are.
  Tensor variable(const std::string& name);
  // All variables and slots likewise, and the step.
  Checkpoint state();
  // CoordinatorOptions::notes of the checkpoint in model_dir that this run goes on from, also where
  // servers have made more steps since; empty without one.
  const std::map<std::string, std::string>& restored_notes() const;
  // Saves weights, slots and step as model_dir/model.ckpt-<step>, the file an Estimator writes, as
  // they are behind one and the same update; calls go on meanwhile. Gives its prefix, or "" where
  // CoordinatorSaveOptions::max_failed_saves lets this save fail. Throws what Scope::save() throws,
  // and InvalidArgument without a model_dir and for max_failed_saves < 0.
  std::string save(const CoordinatorSaveOptions& options = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::distribute
