// A strategy at work: the replicas of one run, from the moment training starts until it ends.
// Thread safety: belongs to the training thread; what reports failures from other threads is
// internal to it.
//
// The order of a run: create variables (through variables(), in one call of the model function) ->
// finish_build() -> restore on the chief -> share_state() -> steps -> finish(). Every replica makes
// the same calls in the same order. Any call may throw PeerLost, Timeout or Unavailable naming the
// task that failed, the step and the phase.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/auto_shard.h"
#include "muster/data/dataset.h"
#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/variable_table.h"
#include "muster/optim/train_op.h"
#include "muster/plan/coordinator_state.h"
#include "muster/tensor/input_context.h"

namespace muster::inline v0_1::distribute {

using plan::Phase;

// How the values of replicas become one.
enum class ReduceOp { kSum, kMean };

// How per-example losses of several replicas become one: kMean divides by the sum of weights, kSum
// adds.
enum class LossReduction { kMean, kSum };

// What one replica brings to a step.
struct StepInput {
  const optim::TrainOp* train_op = nullptr;
  Tensor loss;  // scalar
  LossReduction reduction = LossReduction::kMean;
  double weight = 0;     // of the loss: by default the rows of the batch
  bool has_data = true;  // false: the input of this replica is used up
  int64_t rows = 0;      // examples of this replica in this step
  bool stop = false;     // this task was asked to stop
  bool save = false;     // the chief wants a checkpoint after this step
};

// What the step was over all replicas; the same on each.
struct StepResult {
  bool updated = true;   // false: gradients were kept for a later update; nothing below is known
  bool any_data = true;  // false: every replica is out of data, nothing was updated
  double loss = 0;       // by the reduction rule
  int64_t rows = 0;      // examples over all replicas
  bool stop = false;
  bool save = false;
};

// Seconds the last train_step() spent where.
struct StepTimes {
  double backward = 0;
  double reduction = 0;  // what backward did not hide
  double update = 0;
};

// How a data set is dealt to replicas.
struct DealOptions {
  bool global_batches = false;  // batch(n) means n over all replicas
  uint64_t pass = 0;            // another one shuffles in another order
};

// A replica's part of a data set.
struct ReplicaInput {
  std::unique_ptr<Iterator> iterator;
  // Each process has data of its own, which may end earlier than that of others.
  bool by_process = false;
};

class Session {
 public:
  explicit Session(uint64_t seed, Device device = at::kCPU) : table_(seed, device), seed_(seed) {}
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // --- replicas ---
  virtual int num_replicas_in_sync() const = 0;
  virtual int replica_id() const = 0;
  // Replicas in this process, and which of them this is.
  virtual int num_local_replicas() const { return 1; }
  virtual int local_replica() const { return 0; }
  // Where its variables are, and its batches are to be.
  Device device() const { return table_.device(); }
  // Whether this replica saves, logs and evaluates for all.
  virtual bool is_chief() const = 0;
  // "MultiWorkerMirrored: worker 0 (chief) of 2 over gloo"
  virtual std::string describe() const = 0;
  // One input pipeline a process, whatever replicas it feeds.
  InputContext input_context() const;

  // --- variables ---
  // The variables of this replica.
  VariableTable& variables() { return table_; }
  const VariableTable& variables() const { return table_; }
  uint64_t seed() const { return seed_; }
  // Seals the variables, checks that all replicas built the same, and moves what trains into flat
  // buffers.
  virtual void finish_build(const optim::TrainOp& train_op) = 0;
  // Variables, optimizer slots and counters by checkpoint name. Views: writing them (on the chief,
  // before share_state) sets the state. REQUIRES: finish_build() was called.
  std::map<std::string, Tensor> state() const;
  // What a checkpoint holds on the chief: state(), in which variables of kOnRead are aggregated
  // over the replicas, and with several replicas their own values as "<name>/replicas" [replicas,
  // ...]. All replicas call it together.
  virtual std::map<std::string, Tensor> checkpoint_state() { return state(); }
  // Takes those "<name>/replicas" out of a checkpoint's `tensors`: each replica gets its own back
  // from share_state() when there are as many as now. On the chief, before share_state().
  void take_replica_values(std::map<std::string, Tensor>& tensors);
  // Gives every replica the chief's state, and returns the chief's `note` (any text) to all.
  // Variables of kOnRead get what take_replica_values() took, else the chief's value, of which a
  // sum stays the chief's alone.
  virtual std::string share_state(const std::string& note) = 0;

  // --- data ---
  // This replica's part of a data set that describes all of it, by its AutoShardPolicy; one line of
  // the log says what was chosen and why. One that is sharded by hand is left as it is. Throws what
  // data::auto_shard() throws, on all replicas alike.
  ReplicaInput distribute(const Dataset& dataset, const DealOptions& options = {});
  // The same of a data set that describes this process's data: its batches go to the replicas of
  // this process in turn.
  std::unique_ptr<Iterator> distribute_locally(const Dataset& dataset,
                                               const DealOptions& options = {});

  // --- steps ---
  // How many batches make one update; 1 when it is never called. Call it before finish_build().
  // Throws InvalidArgument unless `steps` >= 1.
  void accumulate(int64_t steps);
  int64_t accumulate_steps() const { return accumulate_steps_; }
  // Batches whose gradients wait for the update.
  int64_t accumulated() const { return group_.batches; }
  // Backward, reduction over replicas, one update, then the updates of the train_op, which must
  // compute the same on every replica. Of the batches of one update, all but the last only do the
  // backward; the gradients of all are weighed as if they were one batch. Throws NonFinite before
  // anything is updated when the loss of the step is not finite; InvalidArgument when, with several
  // replicas, a variable that does not train was changed since the last step, unless each may keep
  // its own value (synchronization kOnRead; or aggregation kNone or kOnlyFirstReplica: the chief's
  // is saved).
  StepResult train_step(const StepInput& input);
  // The update of the batches that wait for one, fewer than accumulate_steps(): where the data
  // ends. Nothing when none waits. All replicas call it together.
  StepResult apply_accumulated();
  const StepTimes& last_times() const { return times_; }

  // --- values ---
  // The sum or mean of `value` over all replicas, in rank order, given to each. Throws
  // InvalidArgument when they differ in shape or dtype, and when another replica is in another
  // call.
  virtual Tensor reduce(ReduceOp op, const Tensor& value) = 0;
  // The value of every replica by rank, given to all. Throws InvalidArgument when they differ in
  // dtype or in another axis than `axis` (>= 0).
  virtual std::vector<Tensor> gather(const Tensor& value, int64_t axis) = 0;
  // Writes the chief's values into those of all replicas. All bring contiguous tensors of the same
  // shapes and dtypes in the same order.
  virtual void broadcast(const std::vector<Tensor>& values) = 0;
  // What calls reduce() and gather() on each replica has returned on this one. Throws
  // InvalidArgument when another replica is still in a collective of it.
  virtual void end_of_function() = 0;
  // The text of every replica by rank, given to all.
  virtual std::vector<std::string> gather_text(const std::string& name,
                                               const std::string& text) = 0;

  // --- control plane ---
  // What this task is doing, for whoever waits for it.
  virtual void report(Phase phase, int64_t step) = 0;
  // Returns when every replica has come here; waits as long as the missing ones are alive.
  virtual void barrier(const std::string& name) = 0;
  // The clean end: all replicas are through.
  virtual void finish() = 0;
  // Throws what ended another replica as soon as that is known here, for long work between
  // collectives; costs a lock.
  virtual void check_failure() = 0;
  // This task cannot go on; the others learn why. Never throws.
  virtual void fail(const Error& error) noexcept = 0;
  // `error`, or what caused it when that happened to another task: a broken connection becomes
  // "worker 1 was lost, last heard of at step 120 (training): ...". Waits a bounded time for the
  // cause to be known.
  virtual Error explain(const Error& error) = 0;

 private:
  // Of a pipeline that describes all data: what this process reads of it.
  data::AutoSharded share_of(const Dataset& dataset) const;
  std::unique_ptr<Iterator> deal(const Dataset& dataset, int replicas, int replica,
                                 const DealOptions& options) const;
  void check_depends_on_variables(const Tensor& loss) const;

  std::string told_of_input_;
  bool losses_checked_ = false;  // of the first step: the later ones are made alike

 protected:
  // The batches of one update, as far as they have come.
  struct Group {
    int64_t batches = 0;
    LossReduction reduction = LossReduction::kMean;
    double weight = 0;
    double loss = 0;       // times the weights, or the sum
    double last_loss = 0;  // of the last batch, for messages
    int64_t rows = 0;
    bool has_data = false;
    bool stop = false;
    bool save = false;
    bool mean() const { return reduction == LossReduction::kMean; }
  };
  // Where a batch stands among those of its update.
  struct Turn {
    bool first = true;
    bool last = true;
  };
  // Throws what can be said of the batch without the other replicas.
  virtual void check_step(const StepInput& input, double loss, Turn turn) = 0;
  // Backward of one batch: its gradients, by the weight `seed`, join those of the group.
  virtual void add_gradients(const optim::TrainOp& train_op, double seed, Turn turn) = 0;
  // The update with the gradients of the group, reduced over replicas; sets times_.reduction and
  // times_.update.
  virtual StepResult update(const optim::TrainOp& train_op, const Group& group) = 0;

  // Throws InvalidArgument for a mean of whole numbers.
  static void check_reducible(ReduceOp op, const Tensor& value);
  // Backward of every distinct loss of the train_op, seeded with `seed`. Throws InvalidArgument for
  // a loss that depends on no variable of this session.
  void run_backward(const optim::TrainOp& train_op, const FlatParameters& parameters, double seed);

  VariableTable table_;
  uint64_t seed_;
  std::unique_ptr<FlatParameters> parameters_;
  std::map<std::string, Tensor> replica_values_;  // [replicas, ...], by name of the variable
  StepTimes times_;

 private:
  int64_t accumulate_steps_ = 1;
  Group group_;
  optim::TrainOp waiting_;  // of the group's last batch, without its losses
};

}  // namespace muster::inline v0_1::distribute
