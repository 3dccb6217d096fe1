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
#include <memory>
#include <optional>

#include "muster/base/environment.h"
#include "muster/distribute/session.h"

namespace muster::inline v0_1::distribute {

class Loop;
class Strategy;

// Options of Strategy::scope().
struct ScopeOptions {
  uint64_t seed = 0;                // of initial values, shuffles and what layers draw
  double join_timeout = 600;        // seconds to wait for all tasks of the cluster to appear
  std::function<bool()> cancelled;  // asked while waiting for them; true ends the wait
  // Where TF_CONFIG is read from; the process's own environment when not set.
  std::optional<Environment> environment;
};

// Options of Strategy::run().
struct RunOptions {
  // Whether layers train (Dropout, BatchNorm) and gradients are kept; minimize() needs it.
  bool training = true;
  // kMean: the loss of a replica is the mean over its examples; the step is that of the mean over
  // the examples of all replicas, as if one had them all. kSum: losses and gradients are added.
  LossReduction loss_reduction = LossReduction::kMean;
};

// An entered strategy. The replicas live as long as the outermost scope of it; scopes of one
// strategy may nest; the options are those of the outermost. Leaving it is a meeting of all
// processes, unless an exception leaves it, which the others then learn of.
class Scope {
 public:
  ~Scope();
  Scope(Scope&&) noexcept = default;
  Scope& operator=(Scope&&) = delete;

  int num_replicas_in_sync() const;
  // Whether this process should save and speak for all.
  bool is_chief() const;
  // Steps that trained so far.
  int64_t step() const;
  // What the last run() that trained was over all replicas: its loss by RunOptions::loss_reduction
  // (of several minimize(), the sum of their losses), and the examples.
  const StepResult& last_step() const;
  // The value of a variable, equal on all replicas (of VariableSynchronization::kOnRead: that of
  // the first replica here). Throws NotFound listing those there are.
  Tensor variable(const std::string& name) const;
  std::vector<std::string> variable_names() const;

 private:
  friend class Strategy;
  explicit Scope(std::shared_ptr<Loop> loop);

  std::shared_ptr<Loop> loop_;
  int exceptions_;
};

}  // namespace muster::inline v0_1::distribute
