// One replica of one run, from the moment training starts until it ends: its place, its variables,
// its exchange with the others, and how it is updated. Thread safety: belongs to the replica's
// thread; reports of failures from other threads are internal to its group.
//
// The order of a run: create variables (through variables(), in one call of the model function) ->
// finish_build() -> state().restore() on the chief -> share_state() -> steps -> finish(). Every
// replica makes the same calls in the same order. Any call may throw PeerLost, Timeout or
// Unavailable naming the task that failed, the step and the phase.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "muster/base/export.h"
#include "muster/collectives/communicator.h"
#include "muster/data/distribute.h"
#include "muster/distribute/exchange.h"
#include "muster/distribute/group.h"
#include "muster/distribute/model_state.h"
#include "muster/distribute/replica_place.h"
#include "muster/distribute/shared_run.h"
#include "muster/distribute/span_recorder.h"
#include "muster/distribute/step.h"
#include "muster/distribute/updater.h"
#include "muster/distribute/variable_table.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/input_context.h"

namespace muster::inline v0_1::distribute {

// The parts from which a strategy makes a replica.
struct ReplicaParts {
  ReplicaPlace place{};
  std::string title{};          // "MultiWorkerMirrored: worker 0 (chief) of 2 over TCP"
  uint64_t seed = 0;            // of initial values and shuffles
  bool rows_elsewhere = false;  // as in VariableTable
  std::unique_ptr<Communicator> communicator{};  // nullptr when it is alone
  std::unique_ptr<Group> group{};
  std::unique_ptr<Exchange> exchange{};
  std::unique_ptr<Updater> updater{};
};

class MUSTER_PART_EXPORT Replica {
 public:
  explicit Replica(ReplicaParts parts);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // --- its parts ---
  const ReplicaPlace& place() const { return parts_.place; }
  // Where it meets the others.
  Group& group() const { return *parts_.group; }
  // How it exchanges values with them.
  Exchange& exchange() const { return *parts_.exchange; }
  // What carries both; nullptr when it is alone.
  Communicator* communicator() const { return parts_.communicator.get(); }
  // Its variables.
  VariableTable& variables() { return table_; }
  const VariableTable& variables() const { return table_; }
  // The state that training changes. REQUIRES: finish_build() was called.
  ModelState& state() { return *state_; }
  // The run that it shares with workers that train at their own pace; nullptr in step with them.
  SharedRun* shared() const { return parts_.updater->shared(); }

  int num_replicas_in_sync() const { return place().replicas(); }
  int replica_id() const { return place().replica(); }
  bool is_chief() const { return place().is_chief(); }
  Device device() const { return place().device; }
  uint64_t seed() const { return parts_.seed; }
  const std::string& describe() const { return parts_.title; }

  // --- data ---
  // One input pipeline a process, whatever replicas it feeds.
  InputContext input_context() const;
  // This replica's part of a data set, as data::distribute(); a line of the log names the choice
  // and its reason. `for_this_process`: the data set describes the data of this process.
  data::DistributedInput distribute(const Dataset& dataset, bool for_this_process,
                                    const data::DistributeOptions& options = {});

  // --- training ---
  // How many batches make one update; 1 when it is never called. Call it before finish_build().
  // Throws InvalidArgument unless `steps` >= 1.
  void accumulate(int64_t steps);
  int64_t accumulate_steps() const { return accumulate_steps_; }
  // From now on a step whose loss or penalty is not finite, or one of whose gradients is not (loss
  // scaling takes care of its own), updates nothing and is reported by StepResult::finite, in place
  // of NonFinite. It is the same on all replicas. It looks at each gradient once in a step.
  void report_non_finite() { report_non_finite_ = true; }
  // Number of batches whose gradients wait for the update.
  int64_t accumulated() const { return accumulated_.batches; }
  // Seals the variables, checks that all replicas built the same, and moves trainable variables to
  // where updates are made.
  void finish_build(const optim::TrainOp& train_op);
  // After finish_build(), between two updates: more variables, or more optimizers, belong to the
  // model. `train_op` names all optimizers, the known ones as before. What training has changed so
  // far stays as it is. All replicas call it together; not where workers go at their own pace.
  void extend_build(const optim::TrainOp& train_op);
  // Gives every replica the chief's state.
  void share_state() { state_->share(); }
  // Backward, reduction over replicas, one update, then the updates of the train_op, which must
  // compute the same on every replica. Of the batches of one update, all except the last only do
  // the backward; the gradients of all are weighted as if they were one batch. Throws NonFinite
  // before anything is updated when the loss of the step is not finite; InvalidArgument when, with
  // several replicas, a variable that does not train was changed since the last step, unless each
  // may keep its own value (synchronization kOnRead; or aggregation kNone or kOnlyFirstReplica: the
  // chief's is saved).
  StepResult train_step(const StepInput& input);
  // The update of the batches that wait for one, fewer than accumulate_steps(): where the data
  // ends. Nothing when none waits. All replicas call it together.
  StepResult apply_accumulated();
  const StepTimes& last_times() const { return times_; }
  // Notes backward, the reduction that backward did not hide, each bucket and the update in
  // `recorder`, which outlives its use; nullptr: nowhere, as from the start. Between steps, after
  // finish_build().
  void record_into(SpanRecorder* recorder);
  // The learning rates of the last update that come from a schedule: "learning_rate" if there is
  // one optimizer, "<optimizer>/learning_rate" if there are several.
  std::map<std::string, double> learning_rates() const { return parts_.updater->learning_rates(); }

  // The clean end: all replicas are through.
  void finish();

 private:
  StepResult update(const optim::TrainOp& train_op);
  void note_update(TimePoint start);

  VariableTable table_;  // outlives its updater
  ReplicaParts parts_;
  std::unique_ptr<ModelState> state_;
  std::set<std::string> told_of_input_;
  int64_t accumulate_steps_ = 1;
  bool report_non_finite_ = false;
  Accumulated accumulated_;
  optim::TrainOp waiting_;  // of the last batch that was accumulated, without its losses
  StepTimes times_;
  SpanRecorder* recorder_ = nullptr;
};

}  // namespace muster::inline v0_1::distribute
