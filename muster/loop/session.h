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
#include <memory>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/strategy.h"
#include "muster/loop/scope.h"
#include "muster/train/checkpoint_writer.h"
#include "muster/train/state_copy.h"

namespace muster::inline v0_1::distribute {

class Loop;

// The strategy whose scope this thread is in; nullptr outside of all.
MUSTER_PART_EXPORT StrategyPtr entered_strategy();

class MUSTER_PART_EXPORT Session {
 public:
  // Keeps the replicas of the scope of `strategy` that this thread is in, with the options of that
  // scope; where it is in none, or another Session keeps these, brings others together. All
  // processes make one together. Throws what Strategy::scope() throws; and InvalidArgument where
  // another Session keeps the replicas of several workers, which cannot meet twice at a time.
  Session(StrategyPtr strategy, const ScopeOptions& options);
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
  // Lets the replicas begin again, with what `state` holds of the variables and slots they will
  // have, and with `accumulate_steps`. So variables may be added that were not there in the first
  // step that trained, and others may train. All processes call it together. Throws InvalidArgument
  // while a data set of Strategy::distribute() is being read.
  void begin_again(const Checkpoint& state, int64_t accumulate_steps) const;

 private:
  const StrategyPtr strategy_;
  std::shared_ptr<Loop> loop_;
  bool shares_scope_ = false;
  const int exceptions_;
};

}  // namespace muster::inline v0_1::distribute
