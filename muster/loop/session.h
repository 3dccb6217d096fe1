// The replicas of a strategy, kept together from one scope to the next: for models that train now
// and then, and keep their weights in memory meanwhile.
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
#include <string>

#include "muster/base/export.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/strategy.h"
#include "muster/loop/scope.h"

namespace muster::inline v0_1::distribute {

class Loop;

// The strategy whose scope this thread is in; nullptr outside of all scopes.
MUSTER_PART_EXPORT StrategyPtr entered_strategy();

class MUSTER_PART_EXPORT Session {
 public:
  // Keeps the replicas of the scope of `strategy` that this thread is in, with the options of that
  // scope; if it is in none, or another Session keeps these, brings others together. All processes
  // make one together. Throws the errors of Strategy::scope(); and InvalidArgument if another
  // Session keeps the replicas of several workers, which cannot form two groups at a time.
  Session(StrategyPtr strategy, const ScopeOptions& options);
  // If the replicas are kept nowhere else, all processes wait for each other here, as at the end of
  // a scope.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns the strategy of the replicas, in a scope of theirs, whatever scope the thread is in.
  // This scope ends before the thread's.
  const StrategyPtr& strategy() const { return strategy_; }
  Scope scope() const;
  // Whether the replicas belong to a scope that the program entered.
  bool shares_scope() const { return shares_scope_; }

  // As Scope::save(); on the chief `beside` is called when the checkpoint is about to be written,
  // and its error fails the save. Returns on all processes whether the checkpoint exists.
  bool save(const std::string& model_dir, const SaveOptions& options,
            const std::function<void()>& beside) const;

  // Begins the replicas anew, with the values in `state` for the variables and slots they will
  // have, and with `accumulate_steps`. So variables may be added that did not exist in the first
  // training step, and others may train. All processes call it together. Throws InvalidArgument
  // while a data set of Strategy::distribute() is being read.
  void begin_again(const Checkpoint& state, int64_t accumulate_steps) const;

 private:
  const StrategyPtr strategy_;
  std::shared_ptr<Loop> loop_;
  bool shares_scope_ = false;
  const int exceptions_;
};

}  // namespace muster::inline v0_1::distribute
