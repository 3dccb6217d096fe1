// Loops written by hand: what a strategy does between scope() and the end of the scope.
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
// Thread safety: belongs to the thread that entered it; functions given to run() are called by all
// replicas of the process at the same time, each in a thread of its own, with variables of its own.
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
  uint64_t seed = 0;          // of initial values, shuffles and what layers draw
  Seconds join_timeout{600};  // how long to wait for all tasks of the cluster to appear
  // Whether this task was asked to stop: true ends a wait for the others, or for another program to
  // leave model_dir, and is what should_stop() tells. Asked in every step, from several threads.
  // When not set: whether Ctrl-C or SIGTERM came, in programs that run_main() or guard_main() runs.
  std::function<bool()> cancelled{};
  // How long a replica is waited for in ReplicaContext::merge(), and its function to return.
  Seconds merge_timeout{300};
  // Calls of run() that train and make one update: their gradients are added as if their batches
  // were one, and reduced in the last of them. At least 1, and the same on all workers.
  int64_t accumulate_steps = 1;
  // Where the chief writes for TensorBoard, as an Estimator does in its model_dir: the loss, what
  // ReplicaContext::summary() was given, and steps per second; empty: nowhere. The same on all
  // workers.
  std::string summary_dir{};
  // On parameter servers the directory that save() will be given: servers that see it write and
  // read their parts of checkpoints there. Empty: all goes through the chief, which needs room for
  // it. Elsewhere it says nothing.
  std::string model_dir{};
  int64_t save_summary_steps = 100;  // of the first step, and then every so many; at least 1
  // Where TF_CONFIG is read from; the process's own environment when not set.
  std::optional<Environment> environment{};
};

// Options of Scope::save().
struct SaveOptions {
  int keep_checkpoint_max = 5;  // the newest ones; 0 keeps all
  // What the program wants to find again: Scope::restored_notes(). The chief's are saved.
  std::map<std::string, std::string> notes{};
  // So many saves to model_dir in a row may fail, as RunConfig::max_failed_saves says of an
  // Estimator: the loop goes on without this one, with a warning, and its next save tries again.
  // The program knows which saves it can do without: 0, the default, lets none fail, as the one
  // behind the loop must not. The first one of a scope, and one where should_stop() is true, must
  // not fail either. 0 or more, the same on all processes.
  int64_t max_failed_saves = 0;
};

// An entered strategy. The replicas live as long as the outermost scope of it; scopes of one
// strategy may nest; the options are those of the outermost. Leaving it is a meeting of all
// processes, unless an exception leaves it, which the others then learn of.
//
// On parameter servers no call but end_training() and the end of the scope meets the others. Each
// worker, and the chief, goes through its share of the data at its own pace; the end of a pass is
// its own. "All processes" below are this one there. Whoever loses a server throws PeerLost, which
// is exit code 138: started again, all continue from the last checkpoint.
class MUSTER_EXPORT Scope {
 public:
  ~Scope();
  Scope(Scope&&) noexcept = default;
  Scope& operator=(Scope&&) = delete;

  // In a task of type "ps": holds its part of the weights until the run is over, and returns true.
  // Elsewhere returns false, at once. `step` is the function that run() trains with, of a batch or
  // of nothing: it is called once, on zero rows of the form of batch that the chief has, so that
  // its variables and optimizers are known. In front of the loop, in every task:
  //   if (scope.serve(step)) return;
  // A worker, or the chief, that is started again where its own data has ended has no batch either,
  // and calls a copy of `step` so, in end_training() or a run() that evaluates. Throws what
  // Strategy::serve() throws, and InvalidArgument where `step` trains nothing.
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
  // This process makes no more steps. On parameter servers it waits until nobody does, so that all
  // see the same weights afterwards; for as long as others live and have data. The chief then saves
  // once more where it has saved in this scope; one that was started again after its last batch,
  // where it restored from. Throws InvalidArgument where the others have data left, and the chief
  // has neither a batch nor the function of serve() to begin the run for them. The end of the scope
  // does the same, and warns of what goes wrong, which on the chief is then the exit code of
  // run_main(); it calls no function of the program. Where replicas train in step there is nothing
  // to wait for.
  void end_training() const;

  int num_replicas_in_sync() const;
  // Those of them that are in this process.
  size_t num_local_replicas() const;
  // Whether this process should print for all of them; save() is called by all, and writes on this
  // one.
  bool is_chief() const;
  // Updates so far.
  int64_t step() const;
  // With ScopeOptions::accumulate_steps: the update of what waits for one, as a smaller step; where
  // the data ends in the middle. Nothing when nothing waits. All processes call it. What still
  // waits when the scope ends is lost, with a warning.
  void apply_accumulated() const;
  // Whether a task of the run was asked to stop. It is the same on all processes after each run()
  // that trains, so that all leave their loops behind the same step:
  //   if (scope.should_stop()) {
  //     scope.save(model_dir);
  //     scope.stop();
  //   }
  bool should_stop() const;
  // Ends the run; all processes call it together, and it throws: Cancelled where this task was
  // asked to stop (run_main() makes exit code 130 or 143 of it), Unavailable (138, "start again")
  // on the others. What was not saved is lost.
  [[noreturn]] void stop() const;
  // Saves variables, optimizer slots, the number of updates and where the data sets of this scope
  // stand as the checkpoint model_dir/model.ckpt-<step>: the file an Estimator writes. All
  // processes call it after the same run(); when it returns, the file is there. The chief writes,
  // and gets its prefix, or "" where SaveOptions::max_failed_saves lets this save fail; the others
  // get "". On parameter servers the chief alone saves, whenever it
  // calls this, with the positions of all workers, while they go on; where it has continued and
  // made no step yet, there is nothing to save. Throws InvalidArgument before anything was trained
  // and where batches wait for an update; NonFinite when a variable is not finite; Unavailable when
  // another program writes model_dir, or has saved there since restore() looked; Cancelled when
  // ScopeOptions::cancelled ends the wait for it; and what CheckpointManager::save() throws. From
  // the first save until the scope ends, model_dir is locked against other programs.
  std::string save(const std::string& model_dir, const SaveOptions& options = {}) const;
  // Lets other programs write model_dir again, before the scope ends.
  void end_saving(const std::string& model_dir) const;
  // Continues from the newest good checkpoint of model_dir, one of save() or of an Estimator with
  // the same variables; false when there is none. step() is known at once; variables and slots get
  // their values in the first run(). A data set of distribute() goes on where the one of its place
  // stood, in the order they were made, of those that were alive at save(); an Estimator's input
  // is none of them. A pass that was under way goes on in the same pipeline only: for another one
  // begin() throws InvalidArgument. A count of passes that is another pipeline's is left, with a
  // warning, to the data set that is distributed next in its place; where each process reads data
  // of its own this is not compared. It only reads model_dir, and locks nothing. All processes call
  // it, before anything was trained; what does not fit the model, InvalidArgument, comes from
  // run(). On parameter servers the chief reads it, unless the servers hold the state of this run
  // already, and positions are those of each worker; the others wait for it to begin, and are given
  // whether the run has made steps.
  bool restore(const std::string& model_dir) const;
  // Gives the SaveOptions::notes of the checkpoint that restore() found, on all processes.
  const std::map<std::string, std::string>& restored_notes() const;
  // Begins with weights of another run: a checkpoint or model_dir, or settings that choose; see
  // WarmStartSettings. Nothing is taken where restore() found a checkpoint. Variables get their
  // values in the first run() that trains; what does not fit, InvalidArgument, comes from there.
  // All processes call it, before anything was trained; the chief reads.
  void warm_start(const WarmStartFrom& from) const;
  // What the last update was over all replicas: its loss by RunOptions::loss_reduction
  // (of several minimize(), the sum of their losses), with the penalties of regularizers, and the
  // examples.
  const StepResult& last_step() const;
  // The value of a variable, equal on all replicas (of VariableSynchronization::kOnRead: that of
  // the first replica here). Throws NotFound listing those there are.
  Tensor variable(const std::string& name) const;
  std::vector<std::string> variable_names() const;
  // Gives what the variables are, in the order in which they were created.
  std::vector<VariableSpec> variable_specs() const;
  // Gives variables these values, on all replicas; the slots of optimizers stay. All processes call
  // it together, with the same values. Not on parameter servers. Throws NotFound with the nearest
  // names for a variable that is not there, and InvalidArgument for a value of another shape.
  void assign(const std::map<std::string, Tensor>& values) const;
  // Gives copies, on the CPU, of what a checkpoint would hold: variables and, from the first step
  // that trained on, slots. All processes call it together; on parameter servers the chief alone.
  Checkpoint state() const;

 private:
  friend class Session;
  friend Scope enter_scope(StrategyPtr strategy, const ScopeOptions& options);
  explicit Scope(std::shared_ptr<Loop> loop);
  bool serve_by(const std::function<void(const Batch&)>& call) const;

  std::shared_ptr<Loop> loop_;
  int exceptions_;
};

// Does what Strategy::scope() says.
MUSTER_EXPORT Scope enter_scope(StrategyPtr strategy, const ScopeOptions& options);

// Strategy's calls whose results this folder defines.
inline Scope Strategy::scope() const { return scope(ScopeOptions()); }
inline Scope Strategy::scope(const ScopeOptions& options) const {
  return enter_scope(shared_from_this(), options);
}

}  // namespace muster::inline v0_1::distribute
