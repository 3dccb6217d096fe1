// The replicas of an entered strategy, as loops written by hand use them.
// Thread safety: belongs to the thread that entered it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <typeindex>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/checkpoint/manager.h"
#include "muster/distribute/entered_loop.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/replica_threads.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/step_context.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/internal/data_progress.h"
#include "muster/loop/internal/merge_point.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "muster/loop/session.h"
#include "muster/metrics/metric.h"
#include "muster/plan/activity.h"
#include "muster/train/engine.h"
#include "muster/train/failed_saves.h"
#include "muster/train/next_step.h"
#include "muster/train/own_training.h"
#include "muster/train/report_hooks.h"
#include "muster/train/run_memory.h"
#include "muster/train/step_summaries.h"
#include "muster/train/stop_request.h"
#include "muster/train/task_watch.h"
#include "muster/train/train_plan.h"

namespace muster::inline v0_1::distribute {

class KeptBatch;

// Throws InvalidArgument for what needs all workers, where they go at their own pace.
void check_meets(const Replica& replica, const char* what);

// In step: all replicas make each call together. Where workers go at their own pace, a ServedLoop
// overrides what is otherwise there.
class Loop : public EnteredLoop, public std::enable_shared_from_this<Loop> {
 public:
  // Whether this task was asked to stop.
  bool stops_by_itself() const;
  // Enters the cluster that this process is in; in an `elastic` run, its group of workers. Throws
  // what Strategy::scope() throws.
  static std::shared_ptr<Loop> make(StrategyPtr strategy, const ScopeOptions& options,
                                    const ElasticSession& elastic = {});
  // `start`: this process in its cluster.
  Loop(StrategyPtr strategy, const ScopeOptions& options, StartOptions start);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  // Brings the replicas together.
  virtual void begin();

  // The one entered last on this thread; nullptr when there is none.
  static Loop* current();
  // Makes it the one that is entered on this thread, until leave().
  void enter();
  void leave(bool by_exception) noexcept;
  // Keeps the replicas together from one scope to the next, until release(). When no scope has
  // entered or keeps it any more, the run ends: `by_exception` tells the others so.
  void keep() { ++keepers_; }
  // The model is that of the first call that trains: a checkpoint must hold it, and no more.
  void fix_model() {
    for (const auto& member : replicas_) member->engine.may_extend(false);
  }
  bool kept() const { return keepers_ > 0; }
  void release(bool by_exception) noexcept;

  const Strategy& strategy() const override { return *strategy_; }
  int num_replicas_in_sync() const override { return first().num_replicas_in_sync(); }
  size_t num_local_replicas() const override { return replicas_.size(); }
  bool is_chief() const { return !replicas_.empty() && first().is_chief(); }
  void check_values(size_t size, const char* what) const override;
  // Throws InvalidArgument in a parameter server's task, and after the end.
  const Replica& first() const;
  int64_t step() const { return step_; }
  // Whether a function that trains was called already; from then on no variables are added.
  bool built() const { return !replicas_.empty() && replicas_.front()->engine.built(); }
  const StepResult& last_step() const { return last_step_; }

  void run(const RunOptions& options, const std::function<void(size_t)>& body,
           const std::function<int64_t(size_t)>& rows,
           const std::function<const Batch*(size_t)>& batch) override;
  // Throws InvalidArgument where the program trains between the calls, by itself, on what it reads
  // from its distributed data.
  void check_own_training() const;
  // Do what Scope::serve() and Scope::end_training() say.
  virtual bool serve(const std::function<void(const Batch&)>& /*call*/) { return false; }
  // `by_program`: not at the end of the scope, where what its functions refer to may be gone.
  virtual void end_training(bool /*by_program*/) {}
  // Before the data of this process is read, where its position is not the chief's: takes it.
  virtual void find_place() {}
  // Whether the run had ended when this process joined it: there is no data to read.
  virtual bool over() const { return false; }
  // A folder of the run, in which people look for it.
  void show_in(const std::string& folder) {
    if (shown_) shown_->show_in(folder);
  }
  // The step at which the program ends, for people who look at the run; below 0: unknown, and then
  // they see the end of the pass over its data.
  void show_last_step(int64_t step);
  // What they see while a pass has so many batches left; below 0: unknown.
  int64_t shown_last_step(int64_t batches) const;
  // Whether the last call of run() trained, or there was none.
  bool trains() const { return trains_; }
  // Do what Scope::should_stop() and Scope::stop() say.
  bool should_stop() const;
  [[noreturn]] void stop();
  // The update of the batches that wait for one.
  void apply_accumulated();
  // Do what Scope::assign(), Scope::state() and Session::begin_again() say.
  virtual void assign(const std::map<std::string, Tensor>& values);
  Checkpoint state(const CopyOfState& copy = {});
  void begin_again(const Checkpoint& state, int64_t accumulate_steps);
  // Do what Scope::save(), Scope::restore() and Scope::warm_start() say.
  // Where `beside` is given, it is called on the chief when the checkpoint is about to be written:
  // what it throws fails the save.
  virtual Saved save(const std::string& model_dir, const SaveOptions& options,
                     const BeforeSave& beside);
  // All processes together: waits for a save that a thread writes. Returns whether the last one of
  // these is there; true if there was none. Throws its error where none may fail.
  bool settle_save();
  // Whether a save has begun that settle_save() has not settled.
  bool is_saving() const;
  // This process by itself, after an error: waits for a save that a thread writes. Returns on the
  // chief whether it is there, and logs why not; false elsewhere, and where there was none.
  // settle_save() settles it later.
  bool await_save() noexcept;
  void begin_saving(const std::string& model_dir) { (void)writer(model_dir, {}); }
  void end_saving(const std::string& model_dir);
  virtual bool restore(const std::string& model_dir);
  void warm_start(const WarmStartSettings& settings);
  // A copy of what a variable is now.
  virtual Tensor value(const Variable& variable);
  // Takes the position back that a data set got and that is another's: the next one that is
  // distributed in its place gets it.
  void give_back(const DistributedDataset::Progress& from, nlohmann::json state);
  const std::map<std::string, std::string>& restored_notes() const {
    (void)first();
    return replicas_.front()->engine.restored_notes();
  }
  // Builds the model by `body`, a function that trains and is given `batch`, and makes no step.
  void build_by(const std::function<void(size_t)>& body, const Batch* batch);
  // Calls `fn(replica, r)` on every replica at once, as a part of the program's `call`
  // ("Scope::save()") that all processes make. When it throws on one, the others end too, and no
  // later call works.
  void each(const char* call, const std::function<void(Replica&, size_t)>& fn);

  // --- an elastic run, whose workers may change (loop_elastic.cc) ---
  bool elastic() const { return start_.elastic != nullptr; }
  // Do what Session says.
  bool in_memory() const { return in_memory_; }
  bool goes_on_after(const Error& error) const;
  void note_place();
  muster::internal::NextStep agree_on_next();
  void regroup(const std::string& call, const Session::NotesOf& notes, bool together);
  std::vector<std::string> gather_text(const std::function<std::string()>& text);
  void check_alike(const Settings& settings);
  std::shared_ptr<const Checkpoint> memory() const;
  std::string save_memory(const std::string& model_dir,
                          const std::map<std::string, std::string>& notes);

  Tensor reduce(ReduceOp op, const PerReplica<Tensor>& value, std::optional<int64_t> axis) override;
  Metric reduce(const PerReplica<Metric>& value) override;
  Tensor gather(const PerReplica<Tensor>& value, int64_t axis) override;
  DistributedDataset distribute(const Dataset& dataset, bool for_this_process);

 protected:
  // A replica with what a loop needs of it.
  struct Member {
    std::unique_ptr<Replica> replica;
    Engine engine;
    StepContext calls;
    ReplicaContext context;
    OwnTraining own_training;  // what the program trains by itself in its function
    StepSummaries summaries;
    TrainPlan plan;       // the optimizers of all calls so far
    size_t restored = 0;  // variables that have a checkpoint's values, before the first step
    PendingSave pending;  // that a thread writes
    plan::ListedActivity activity;

    // `summary_steps` of 0: no summaries. `run` is the name of the run for its record.
    Member(std::unique_ptr<Replica> started, int64_t accumulate_steps, int64_t summary_steps,
           const std::string& run);
  };

  // --- what another pace changes ---
  // Before a call of run() or evaluation, before its replicas are called.
  virtual void before_run(bool /*training*/) {}
  // Around the build, on a replica: `batch` is what it is built on, nullptr without one.
  virtual void before_build(Member& /*member*/, const Batch* /*batch*/) {}
  virtual void after_build(Member& /*member*/) {}
  // Before the function is called on a replica whose model is built or is not yet.
  virtual void before_call(Member& /*member*/, bool /*training*/) {}
  // A replica leaves the run, which has no more steps.
  virtual void leave_run(Replica& /*replica*/) {}
  // Where the data sets stand, as a checkpoint holds it; and the way back.
  virtual nlohmann::json inputs_to_save() const;
  virtual void take_restored_inputs();
  // Before the replicas agree why the run stops.
  virtual void before_stop() {}
  // Where the run was stopped: "after saving step 7"; and whether it continues from something.
  virtual std::string stopped_at() const;
  virtual bool goes_on_later() const { return saved_step_ >= 0 || restored_; }

  const Engine& first_engine() const { return replicas_.front()->engine; }
  nlohmann::json positions_of_data() const;
  void take_positions(const std::string& position);
  // One name for each directory, however it is spelled.
  static std::string key_of(const std::string& model_dir);

  const StrategyPtr strategy_;
  ScopeOptions options_;
  StartOptions start_;
  // Calls of request_stop() since the program entered the scope. Before the replicas, which ask.
  StopRequest request_;
  const std::function<bool()> cancelled_;
  std::optional<TaskWatch> shown_;  // before the replicas, whose records it shows
  std::vector<std::unique_ptr<Member>> replicas_;
  int64_t step_ = 0;
  int64_t saved_step_ = -1;  // of the last save() that is written
  bool restored_ = false;    // a checkpoint was found
  // What run() was called for so far.
  enum class Called { kNever, kToEvaluate, kToTrain };
  Called called_ = Called::kNever;

 private:
  // The call that brings the replicas together, by its name.
  static constexpr const char* kJoining = "strategy->scope()";
  struct Call;
  void start_replicas();
  // Throws InvalidArgument where the options of others differ; all replicas call it together.
  void check_settings(Replica& replica) const;
  // The run is over if no scope has entered or keeps it any more.
  void end_if_left(bool by_exception) noexcept;
  // Throws where the loop is over, or its replicas are at work.
  void check_ready() const;
  // The call that makes the variables, before the first step that trains. False when it did not
  // train.
  bool build(Member& member, Call& call, const KeptBatch& kept,
             const std::function<optim::TrainOp()>& invoke);
  const Batch* batch_of(const Call& call, size_t local) const;
  // The first call of a function that trains, after the build: what `invoke` described, completed.
  // Where it names new optimizers they are added, with what variables it made, and it is invoked
  // again.
  optim::TrainOp invoke_new(Member& member, const KeptBatch& kept, int64_t rows,
                            const std::function<optim::TrainOp()>& invoke);
  // Before the first step that trains: gives variables that are new since the last call the values
  // of the checkpoint. Returns whether there were any; all replicas call it together.
  bool restore_variables(Member& member);
  // On the chief: the right to write model_dir, from the first save there until the scope ends.
  CheckpointWriter& writer(const std::string& model_dir, const CheckpointManagerOptions& options);
  void note(const StepResult& result);
  // --- of an elastic run ---
  // Whether this process is the chief, and workers wait to join.
  bool has_newcomers() const;
  // Joins the next group of workers, and the one after it if a member is lost meanwhile.
  void join_group();
  void form_group();
  // Throws InvalidArgument if this process has come to another call than the chief.
  void check_meeting(Replica& replica) const;
  // What is kept for the next group, of each replica here: the state that this process has.
  void remember(const Session::NotesOf& notes, const std::map<std::string, Tensor>& tensors);
  // The chief keeps the state for all, and the group ends. All replicas call it together.
  void remember_together(const Session::NotesOf& notes);

  // One call of the function on one replica.
  void make(Member& member, size_t local, Call& call);
  optim::TrainOp invoke(Member& member, size_t local, Call& call);
  // Gathers and writes the summaries of a step that was made; all replicas call it together.
  void summarize(Member& member, const StepResult& made) const;

  std::unique_ptr<MergePoint> merge_point_;
  std::unique_ptr<ReplicaThreads> threads_;
  // What the replicas do. An Error is what ended them.
  struct Ready {};
  struct AtWork {};
  std::variant<Ready, AtWork, Error> doing_;
  StepResult last_step_;
  bool stop_ = false;  // a step told all replicas to
  bool told_of_no_step_ = false;
  std::set<std::type_index> known_functions_;  // that have trained
  bool trains_ = true;
  bool reduced_ = false;                       // reduce() or gather() was called
  std::unique_ptr<BackwardWatch> watch_;       // of what the program does between the calls
  std::unique_ptr<SummaryHook> summary_hook_;  // on the chief, from the first step on
  int64_t shown_last_step_ = -1;               // as show_last_step() was told
  int64_t pending_step_ = -1;                  // of the save that a thread writes, or wrote last
  bool settled_ = true;  // whether the last save that a thread wrote succeeded
  // On the chief, by directory: who writes there, and the checkpoints that restore() saw there.
  std::map<std::string, CheckpointWriter> writers_;
  // For the directories that were saved to in this scope, on all processes.
  std::map<std::string, FailedSaves> failed_saves_;
  std::map<std::string, std::set<std::string>> seen_;
  std::optional<std::string> warm_start_;  // what warm_start() was called with
  nlohmann::json restored_data_;           // its positions that no data set has taken yet
  std::vector<std::weak_ptr<DistributedDataset::Progress>> data_;  // in the order they were made
  // Of an elastic run.
  std::vector<muster::internal::RunMemory> memories_;  // by replica of this process
  std::string meeting_;                                // the call in which its workers join
  bool in_memory_ = false;                             // the group continues from memory
  bool tries_group_ = false;                           // the group has made no step yet
  DistributedDataset::Progress::Place place_;          // of the first data set
  int64_t placed_step_ = -1;                           // after which it was there
  int scopes_ = 0, keepers_ = 0;
  bool entered_before_ = false;
};

}  // namespace muster::inline v0_1::distribute
