// A TrainOp describes what one training step does; the strategy executes it: backward, reduction,
// updates. Thread safety: a value of one thread; it holds the graph of its losses alive.
#pragma once

#include <functional>
#include <vector>

#include "muster/base/export.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {

struct TrainOp {
  // Entries with the same loss share one backward.
  struct Entry {
    Tensor loss{};  // scalar
    Optimizer optimizer;
    std::function<bool(const VariableSpec&)> filter{};  // empty: every trainable variable
    // What minimize() was told alone, without what the optimizer leaves out by itself (freeze()).
    std::function<bool(const VariableSpec&)> asked{};
    // Whether the optimizer makes no step this time; it has no loss then. See no_step().
    bool rests = false;
  };
  std::vector<Entry> entries{};
  // These run after the variables were updated, in order.
  std::vector<std::function<void()>> updates{};

  bool defined() const { return !entries.empty() || !updates.empty(); }
};

// Joins what the parts do, in their order. Undefined parts are allowed.
MUSTER_EXPORT TrainOp group(std::vector<TrainOp> parts);

}  // namespace muster::inline v0_1::optim
