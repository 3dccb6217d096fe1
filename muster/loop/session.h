// The replicas of a strategy, kept together from one scope to the next: for what trains now and
// then, and has its weights in memory meanwhile.
//
//   const Session session(strategy, {});
//   {
//     const Scope scope = session.scope();
//     strategy->run(step, batch);
//   }
//
// Thread safety: belongs to the thread that made it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/export.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/agree.h"
#include "muster/distribute/strategy.h"
#include "muster/loop/scope.h"
#include "muster/tensor/batch.h"
#include "muster/train/checkpoint_writer.h"
#include "muster/train/next_step.h"
#include "muster/train/state_copy.h"

namespace muster::inline v0_1::distribute {

class Loop;
class ElasticRun;

// How a session of an elastic run begins, whose workers may change.
struct ElasticSession {
  std::shared_ptr<ElasticRun> run{};  // nullptr: the run is not elastic
  // The call of the program that makes the session, "fit() number 1": a worker that joins must have
  // come to the call in which the others are.
  std::string call{};
  // Weights and slots that the program begins with, where no worker has trained; the chief's count.
  std::optional<Checkpoint> state{};
};

// The strategy whose scope this thread is in; nullptr outside of all.
MUSTER_PART_EXPORT StrategyPtr entered_strategy();

class MUSTER_PART_EXPORT Session {
 public:
  // Keeps the replicas of the scope of `strategy` that this thread is in, with the options of that
  // scope; where it is in none, or another Session keeps these, brings others together. All
  // processes make one together. Throws what Strategy::scope() throws; and InvalidArgument where
  // another Session keeps the replicas of several workers, which cannot meet twice at a time.
  Session(StrategyPtr strategy, const ScopeOptions& options, const ElasticSession& elastic = {});
  // If no other scope keeps the replicas, it is a meeting of all processes, as the end of a scope.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Gives the strategy whose replicas they are, and a scope of them, whatever scope the thread is
  // in. It ends before that one does.
  const StrategyPtr& strategy() const { return strategy_; }
  Scope scope() const;
  // A folder of the run, in which people look for it.
  void show_in(const std::string& folder) const;
  // At which step the program ends, for these people; below 0: unknown.
  void show_last_step(int64_t step) const;
  // Whether the replicas are those of a scope that the program entered.
  bool shares_scope() const { return shares_scope_; }

  // On the chief, where it may be a part of gather_text(): proves that checkpoints can be written
  // there, and locks the folder until Scope::end_saving(), as the first save() would. Throws what
  // CheckpointWriter's constructor throws.
  void begin_saving(const std::string& model_dir) const;
  // As Scope::save(); on the chief `beside` is called when the checkpoint is about to be written,
  // by the thread that writes it, and an Error that it throws fails the save. Returns on all
  // processes whether it is there; nothing where a thread writes it.
  std::optional<bool> save(const std::string& model_dir, const SaveOptions& options,
                           const BeforeSave& beside) const;
  // All processes together: waits for the save that a thread writes, and returns whether it is
  // there. Throws its error where none may fail. REQUIRES: save() returned nothing.
  bool settle_save() const;
  // This process by itself, after an error: the same, but the log has the error. Returns false
  // where this process is not the chief. The next save() or settle_save() settles the save.
  bool await_save() const noexcept;

  // As Scope::state(), but the chief has what `copy` returns, and others have no tensors.
  Checkpoint state(const CopyOfState& copy) const;
  // Makes the variables and what trains them, by a function that trains on this batch, without a
  // step. All processes call it together, before the first step.
  void build(const std::function<void()>& function, const Batch& batch) const;
  // Lets the replicas begin again, with what `state` holds of the variables and slots they will
  // have, and with `accumulate_steps`. So variables may be added that were not there in the first
  // step that trained, and others may train. All processes call it together. Throws InvalidArgument
  // while a data set of Strategy::distribute() is being read.
  void begin_again(const Checkpoint& state, int64_t accumulate_steps) const;

  // --- of an elastic run ---
  // Whether its group of workers continues from the memory of one of them, whose notes
  // Scope::restored_notes() has; the next data set that is distributed continues too.
  bool in_memory() const;
  // Whether others can go on although a call threw `error`: by regroup().
  bool goes_on_after(const Error& error) const;
  // After an update, and before the first: the first data set continues here if the next one fails.
  void note_place() const;
  // What follows the last step; all processes call it when Scope::should_stop() is true. Throws
  // Cancelled in a process that leaves the run.
  muster::internal::NextStep agree_on_next() const;
  // Joins the next group of workers, with this process's state in memory and its notes, of the step
  // after which that state is; `call` as in ElasticSession. Afterwards all of the group have the
  // state and the notes of the one that was furthest. If it goes on `together`, no worker was lost,
  // and the chief's count. Throws what Strategy::scope() throws, and what keeps the run from going
  // on.
  using NotesOf = std::function<std::map<std::string, std::string>(int64_t step)>;
  void regroup(const std::string& call, const NotesOf& notes, bool together) const;
  // What this process brings to the next group; nullptr if it has no whole state. And saves it, on
  // the chief, with these notes: where no other group comes. Returns the prefix.
  std::shared_ptr<const Checkpoint> memory() const;
  std::string save_memory(const std::string& model_dir,
                          const std::map<std::string, std::string>& notes) const;
  // All processes together: the texts of all, by their replicas; "" of a replica that is not the
  // first of its process. What `text` throws ends the others, too.
  std::vector<std::string> gather_text(const std::function<std::string()>& text) const;
  // All processes together. Throws InvalidArgument on all if their settings differ: check_same().
  void check_alike(const Settings& settings) const;

 private:
  const StrategyPtr strategy_;
  std::shared_ptr<Loop> loop_;
  bool shares_scope_ = false;
  const int exceptions_;
};

}  // namespace muster::inline v0_1::distribute
