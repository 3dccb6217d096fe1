// The replicas of an entered strategy, as loops written by hand use them.
// Thread safety: belongs to the thread that entered it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/checkpoint/directory_lock.h"
#include "muster/checkpoint/manager.h"
#include "muster/distribute/distributed_dataset.h"
#include "muster/distribute/internal/merge_point.h"
#include "muster/distribute/replica_context.h"
#include "muster/distribute/replica_threads.h"
#include "muster/distribute/scope.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/call_context.h"
#include "muster/metrics/metric.h"

namespace muster::inline v0_1::distribute {

class Loop : public std::enable_shared_from_this<Loop> {
 public:
  Loop(StrategyPtr strategy, const ScopeOptions& options);

  // The one entered on this thread; nullptr when there is none.
  static Loop* entered();
  // Counts the scopes. The last to leave ends the run: `by_exception` tells the others so.
  void enter();
  void leave(bool by_exception) noexcept;

  const Strategy& strategy() const { return *strategy_; }
  size_t num_local_replicas() const { return replicas_.size(); }
  // Throws InvalidArgument unless `size`, of values given to `what`, is the number of replicas
  // here.
  void check_values(size_t size, const char* what) const;
  const Session& session() const { return *replicas_.front()->session; }
  int64_t step() const { return step_; }
  const StepResult& last_step() const { return last_step_; }

  // Calls `body` on every replica; `rows(r)` are the examples local replica r has.
  void run(const RunOptions& options, const std::function<void(size_t)>& body,
           const std::function<int64_t(size_t)>& rows);
  // The update of the batches that wait for one.
  void apply_accumulated();
  // As those of Scope.
  std::string save(const std::string& model_dir, const SaveOptions& options);
  bool restore(const std::string& model_dir);
  // Calls `fn(session, r)` on every replica at once. When it throws on one, the others end too, and
  // no later call works.
  void each(const std::function<void(Session&, size_t)>& fn);

  Tensor reduce(ReduceOp op, const PerReplica<Tensor>& value, std::optional<int64_t> axis);
  Metric reduce(const PerReplica<Metric>& value);
  Tensor gather(const PerReplica<Tensor>& value, int64_t axis);
  DistributedDataset distribute(const Dataset& dataset, bool for_this_process);

 private:
  struct Replica {
    std::unique_ptr<Session> session;
    CallContext calls;
    ReplicaContext context;
    size_t restored = 0;  // variables that have a checkpoint's values, before the first step

    explicit Replica(std::unique_ptr<Session> started)
        : session(std::move(started)),
          calls(session->variables(), session->seed()),
          context(*session) {
      calls.set_replicas(session->num_replicas_in_sync(), [this](const Tensor& value) {
        return all_reduce(*session, ReduceOp::kSum, value);
      });
    }
  };
  struct Call;
  // A model_dir that was saved to; on the chief.
  struct Target {
    CheckpointManager checkpoints;
    DirectoryLock lock;

    Target(const std::string& model_dir, const SaveOptions& options)
        : checkpoints(model_dir, {.keep_checkpoint_max = options.keep_checkpoint_max}),
          lock(model_dir) {}
  };
  // What restore() found, until the variables have it.
  struct Restored {
    nlohmann::json data;                                  // positions, by data set
    std::optional<CheckpointManager::Loaded> checkpoint;  // on the chief
  };
  // Before the first step that trains: gives the variables there are the values of a checkpoint.
  void restore_variables(Replica& replica);
  void note(const StepResult& result);
  void make(Replica& replica, size_t local, Call& call);
  StepResult train(Session& session, const optim::TrainOp& train_op, const RunOptions& options,
                   int64_t examples) const;

  const StrategyPtr strategy_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::unique_ptr<MergePoint> merge_point_;
  std::unique_ptr<ReplicaThreads> threads_;
  bool built_ = false;  // a function that trains was seen: the variables are what they are
  int64_t step_ = 0;
  StepResult last_step_;
  std::map<std::string, Target> targets_;  // by model_dir
  std::optional<Restored> restored_;
  std::vector<std::weak_ptr<DistributedDataset::Progress>> data_;  // in the order they were made
  int scopes_ = 0;
  bool running_ = false;  // the replicas' threads are at work
  std::optional<Error> broken_;
};

}  // namespace muster::inline v0_1::distribute
