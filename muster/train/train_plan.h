// The optimizers of a run whose steps do not all name the same ones: a discriminator in one call,
// a generator in another. Every optimizer that a step does not name makes no step in it.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/optim/train_op.h"

namespace muster::inline v0_1 {

class MUSTER_PART_EXPORT TrainPlan {
 public:
  // Whether every optimizer of `train_op` was added before.
  bool covers(const optim::TrainOp& train_op) const;
  // Adds the entries of optimizers that are new, without their losses.
  void add(const optim::TrainOp& train_op);
  // `train_op` with an entry that rests for each of the plan's optimizers that it does not name, in
  // the order of the plan. Where it names one with more or fewer entries than were added, it is
  // returned as it is.
  optim::TrainOp completed(optim::TrainOp train_op) const;
  // All entries, as ones that rest: what a model is built with.
  optim::TrainOp all() const { return completed({}); }
  // Names of the optimizers, each once, in their order.
  std::vector<std::string> names() const;

 private:
  std::vector<optim::TrainOp::Entry> entries_;  // at rest
};

}  // namespace muster::inline v0_1
