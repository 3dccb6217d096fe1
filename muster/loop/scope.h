// Loops written by hand: the functions of a strategy between scope() and the end of the scope.
//
//   const auto strategy = distribute::mirrored({.replicas = 2});
//   const auto scope = strategy->scope();
//   const Layer model = Dense(1);
//   const auto adam = optim::adam({.learning_rate = 0.1});
//   for (const auto& batch : strategy->distribute(dataset)) {   // batches over all replicas
//     const auto losses = strategy->run([&](const Features& x, const Labels& y) {
//       const Tensor loss = losses::mean_squared_error(y, model(x));
//       adam.minimize(loss);   // reduced over the replicas and applied when this returns
//       return loss;
//     }, batch);
//   }
//
// Thread safety: belongs to the thread that entered it. All replicas of the process call functions
// given to run() at the same time, each on its own thread, with its own variables.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/warm_start_settings.h"
#include "muster/distribute/replica_call.h"
#include "muster/distribute/step.h"
#include "muster/distribute/strategy.h"
#include "muster/tensor/batch.h"
#include "muster/tensor/tensor.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::distribute {

class Loop;

// Options of Strategy::scope().
struct ScopeOptions {
  uint64_t seed = 0;          // for initial values, shuffles and random numbers of layers
  Seconds join_timeout{600};  // how long to wait for all tasks of the cluster to connect
  // Whether this task was asked to stop: true ends a wait for other tasks, or for another program
  // that uses model_dir, and becomes the result of should_stop(). Called in every step, from
  // several threads. Default: whether Ctrl-C or SIGTERM came, in programs that run_main() or
  // guard_main() runs.
  std::function<bool()> cancelled{};
  // How long ReplicaContext::merge() waits for a replica, and for its function to return.
  Seconds merge_timeout{300};
  // The number of training calls of run() that make one update: their gradients are added as if
  // their batches were one, and reduced in the last call. At least 1, and the same on all workers.
  int64_t accumulate_steps = 1;
  // The directory for TensorBoard events, as an Estimator's model_dir: the chief writes the loss,
  // ReplicaContext::summary() and steps per second; empty: none. The same on all workers.
  std::string summary_dir{};
  // On parameter servers, the directory that you will pass to save(): servers that can access it
  // write and read their parts of checkpoints there. Empty: all parts go through the chief, which
  // needs memory for them. With other strategies it has no effect.
  std::string model_dir{};
  int64_t save_summary_steps = 100;  // after the first step, and then after this many; at least 1
  // The environment that holds TF_CONFIG; default: that of the process.
  std::optional<Environment> environment{};
};

// Options of Scope::save().
struct SaveOptions {
  int keep_checkpoint_max = 5;  // the newest ones; 0 keeps all
  // Texts of the program, returned by Scope::restored_notes(). The chief's are saved.
  std::map<std::string, std::string> notes{};
  // How many saves to model_dir in a row may fail, as RunConfig::max_failed_saves for an Estimator:
  // the loop continues without this checkpoint, logs a warning, and its next save tries again.
  // Choose it for saves that the program can do without: 0, the default, allows no failure, as is
  // right for the save after the loop. The first save of a scope, and a save when should_stop() is
  // true, must succeed. 0 or more, the same on all processes.
  int64_t max_failed_saves = 0;
  // Whether save() returns when the chief has copied the state, while a thread writes the
  // checkpoint. The next save(), end_saving() and the end of the scope wait for it; run() and
  // save() throw its error; at the end of the scope it decides the exit code of run_main(). The
  // chief needs memory for its state twice. Choose it for the saves in a loop, and leave it out for
  // the save after the loop: then that call throws what goes wrong. The first save of a scope,
  // and a save when should_stop() is true, wait in any case. On parameter servers the servers copy
  // and write their parts, and the chief needs no memory for them. The same on all processes.
  bool asynchronous = false;
};

// An entered strategy. The replicas live as long as the outermost scope. Scopes of one strategy may
// nest; the options of the outermost apply. All processes leave it together, unless an exception
// leaves it; the other processes are then notified.
//
// On parameter servers only end_training() and the end of the scope wait for other tasks. Each
// worker, and the chief, reads its share of the data at its own speed, and ends its passes by
// itself. "All processes" below then means this process only. A task that loses a server throws
// PeerLost, exit code 138: when all are restarted, they continue from the last checkpoint.
class MUSTER_EXPORT Scope {
 public:
  ~Scope();
  Scope(Scope&&) noexcept = default;
  Scope& operator=(Scope&&) = delete;

  // On a task of type "ps": holds its part of the weights until the run ends, and returns true.
  // Elsewhere returns false at once. `step` is the function that run() trains with, of a batch or
  // of nothing: it is called once, on zero rows of the chief's batch format, to learn its variables
  // and optimizers. Call it before the loop, in every task:
  //   if (scope.serve(step)) return;
  // A restarted worker or chief whose own data has ended has no batch either; it calls a copy of
  // `step` in the same way, in end_training() or in a run() that evaluates. Throws the errors of
  // Strategy::serve(), and InvalidArgument if `step` trains nothing.
  template <typename Fn>
  bool serve(Fn&& step) const {
    const auto kept = std::make_shared<std::decay_t<Fn>>(std::forward<Fn>(step));
    return serve_by([kept](const Batch& batch) {
      if constexpr (std::is_invocable_v<std::decay_t<Fn>&>) {
        (void)(*kept)();
      } else {
        replica_call::call(*kept, batch);
      }
    });
  }
  // Says that this process makes no more steps. On parameter servers it waits until no process
  // makes steps, as long as others live and have data, so that all see the same weights afterwards.
  // The chief then saves once more, if it has saved in this scope; a chief that was restarted after
  // its last batch saves where it restored from. Throws InvalidArgument if other processes have
  // data left and the chief has neither a batch nor the function of serve() to begin the run for
  // them. The end of the scope does the same, but calls no function of the program and logs errors
  // as warnings; on the chief, such an error becomes the exit code of run_main(). With other
  // strategies there is nothing to wait for.
  void end_training() const;

  int num_replicas_in_sync() const;
  // The number of replicas in this process.
  size_t num_local_replicas() const;
  // Whether this process should print for all of them. All processes call save(); this one writes.
  bool is_chief() const;
  // The number of updates so far.
  int64_t step() const;
  // With ScopeOptions::accumulate_steps: makes an update of the batches that wait for one, as a
  // smaller step, when the data ends in between. Does nothing if none waits. All processes call it.
  // Batches that still wait when the scope ends are lost, with a warning.
  void apply_accumulated() const;
  // Whether a task of the run was asked to stop. It is the same on all processes after each run()
  // that trains, so all leave their loops after the same step:
  //   if (scope.should_stop()) {
  //     scope.save(model_dir);
  //     scope.stop();
  //   }
  bool should_stop() const;
  // Ends the run; all processes call it together. It throws Cancelled on a task that was asked to
  // stop (run_main() turns it into exit code 130 or 143), and Unavailable (138, "start again") on
  // the others. Unsaved steps are lost.
  [[noreturn]] void stop() const;
  // Saves variables, optimizer slots, the number of updates and the positions of this scope's data
  // sets as the checkpoint model_dir/model.ckpt-<step>, the file an Estimator writes. All processes
  // call it after the same run(); when it returns, the file is there, unless
  // SaveOptions::asynchronous is set. The chief writes, and returns its prefix, or "" when the save
  // failed and SaveOptions::max_failed_saves allows it; the others return "". On parameter servers
  // only the chief saves, whenever it calls this, with the positions of all workers, while they
  // continue; if it has restored and made no step yet, it does not save. Throws InvalidArgument
  // before anything was trained and while batches wait for an update; NonFinite if a variable is
  // not finite; Unavailable if another program writes to model_dir, or has saved there since
  // restore(); Cancelled if ScopeOptions::cancelled ends the wait for that program; and the errors
  // of CheckpointManager::save(). From the first save until the scope ends, model_dir is locked for
  // other programs.
  std::string save(const std::string& model_dir, const SaveOptions& options = {}) const;
  // Unlocks model_dir for other programs, before the scope ends. All processes call it if the last
  // save was asynchronous: it waits for that save, and throws its error.
  void end_saving(const std::string& model_dir) const;
  // Continues from the newest good checkpoint of model_dir, written by save() or by an Estimator
  // with the same variables; returns false when there is none. step() is set at once; variables and
  // slots get their values in the first run(). Data sets of distribute() continue by the order in
  // which they were made: the first one continues where the first one that existed at save()
  // stopped. An Estimator's input is not among them. A pass in progress continues only in the same
  // pipeline: for another one begin() throws InvalidArgument. A pass count of another pipeline is
  // given, with a warning, to the next data set of that place; this is not compared if each process
  // reads its own data. It only reads model_dir, and locks nothing. All processes call it, before
  // anything was trained; run() throws InvalidArgument for a checkpoint that does not fit the
  // model. On parameter servers the chief reads it, unless the servers already hold the state of
  // this run, and positions are those of each worker; the other tasks wait for the chief and get
  // whether the run has made steps.
  bool restore(const std::string& model_dir) const;
  // Returns the SaveOptions::notes of the checkpoint that restore() loaded, on all processes.
  const std::map<std::string, std::string>& restored_notes() const;
  // Begins with weights of another run: a checkpoint or model_dir, or settings that choose
  // variables; see WarmStartSettings. Does nothing if restore() found a checkpoint. Variables get
  // their values in the first run() that trains, which throws InvalidArgument for values that do
  // not fit. All processes call it, before anything was trained; the chief reads.
  void warm_start(const WarmStartFrom& from) const;
  // The result of the last update over all replicas: its loss by RunOptions::loss_reduction (the
  // sum of the losses of several minimize() calls), including the penalties of regularizers, and
  // its examples.
  const StepResult& last_step() const;
  // Returns the value of a variable, which is equal on all replicas (with
  // VariableSynchronization::kOnRead: the value of the first replica here). Throws NotFound with
  // the names of all variables.
  Tensor variable(const std::string& name) const;
  std::vector<std::string> variable_names() const;
  // Returns the specifications of the variables, in the order of their creation.
  std::vector<VariableSpec> variable_specs() const;
  // Sets variables to these values, on all replicas; the slots of optimizers are unchanged. All
  // processes call it together, with the same values. Not on parameter servers. Throws NotFound
  // with the nearest names for an unknown variable, and InvalidArgument for a value of another
  // shape.
  void assign(const std::map<std::string, Tensor>& values) const;
  // Returns copies, on the CPU, of the content of a checkpoint: variables and, from the first
  // training step on, slots. All processes call it together; on parameter servers only the chief.
  Checkpoint state() const;

 private:
  friend class Session;
  friend Scope enter_scope(StrategyPtr strategy, const ScopeOptions& options);
  explicit Scope(std::shared_ptr<Loop> loop);
  bool serve_by(const std::function<void(const Batch&)>& call) const;

  std::shared_ptr<Loop> loop_;
  int exceptions_;
};

// Implements Strategy::scope().
MUSTER_EXPORT Scope enter_scope(StrategyPtr strategy, const ScopeOptions& options);

// Definitions of Strategy's functions that return types of this folder.
inline Scope Strategy::scope() const { return scope(ScopeOptions()); }
inline Scope Strategy::scope(const ScopeOptions& options) const {
  return enter_scope(shared_from_this(), options);
}

}  // namespace muster::inline v0_1::distribute
