// A TrainOp describes one training step; the strategy executes it: backward pass, reduction,
// updates. Thread safety: a value of one thread; it keeps the graph of its losses alive.
#pragma once

#include <functional>
#include <vector>

#include "muster/base/export.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {

struct TrainOp {
  // Entries with the same loss share one backward pass.
  struct Entry {
    Tensor loss{};  // scalar
    Optimizer optimizer;
    std::function<bool(const VariableSpec&)> filter{};  // empty: every trainable variable
    // Only the filter of minimize(), without what the optimizer itself leaves out (freeze()).
    std::function<bool(const VariableSpec&)> asked{};
    // Whether the optimizer makes no step this time and has no loss. See no_step().
    bool rests = false;
  };
  std::vector<Entry> entries{};
  // Functions to run in order after the variables were updated.
  std::vector<std::function<void()>> updates{};

  bool defined() const { return !entries.empty() || !updates.empty(); }
};

// Joins the parts, in their order. Undefined parts are allowed.
MUSTER_EXPORT TrainOp group(std::vector<TrainOp> parts);

}  // namespace muster::inline v0_1::optim
