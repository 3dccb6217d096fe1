// What one training step does, as a description the strategy executes: backward, reduction,
// updates. Thread safety: a value of one thread; it holds the graph of its losses alive.
#pragma once

#include <functional>
#include <vector>

#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {

struct TrainOp {
  // Entries with the same loss share one backward.
  struct Entry {
    Tensor loss;  // scalar
    Optimizer optimizer;
    std::function<bool(const VariableSpec&)> filter;  // empty: every trainable variable
  };
  std::vector<Entry> entries;
  // Run after the variables were updated, in order.
  std::vector<std::function<void()>> updates;

  bool defined() const { return !entries.empty() || !updates.empty(); }
};

// While one lives, what minimize() describes on this thread is also collected here: for whoever
// executes the steps of a loop written by hand. The innermost one collects.
class Recording {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // All that was described since it was made, as one.
  TrainOp train_op() const;

 private:
  friend class Optimizer;
  static void add(const TrainOp& train_op);

  std::vector<TrainOp> parts_;
  Recording* outer_;
};

// Everything the parts do, in their order. Undefined parts are allowed.
TrainOp group(std::vector<TrainOp> parts);

}  // namespace muster::inline v0_1::optim
