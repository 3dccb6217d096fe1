// Grows one tree, level by level.
// Thread safety: a Grower belongs to one thread; all replicas make the same calls together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "muster/distribute/exchange.h"
#include "muster/trees/ensemble.h"
#include "muster/trees/internal/bins.h"
#include "muster/trees/internal/gradients.h"
#include "muster/trees/internal/split.h"
#include "muster/trees/pruning_mode.h"

namespace muster::inline v0_1::trees {

// How a tree grows.
struct GrowOptions {
  int64_t max_depth = 6;
  double learning_rate = 0.1;
  double tree_complexity = 0;  // of each split, against its gain
  PruningMode pruning_mode = PruningMode::kNone;
  Regularization regularization{};
};

class Grower {
 public:
  // All of these outlive it; `rows` are this replica's, `replicas` is the number of replicas.
  Grower(const Bins& bins, const BinnedRows& rows, const GrowOptions& options,
         distribute::Exchange& exchange, int64_t replicas);
  ~Grower();

  // The result of growing a tree.
  struct Grown {
    Tree tree{};
    int64_t layers = 0;  // levels that were looked at
  };
  // Grows a tree on the packed derivatives of this replica's rows. All replicas get the same.
  Grown grow(const std::vector<int64_t>& packed, const Scale& scale);
  // Adds to scores[i] the value of the leaf of the last tree that row i is in.
  void add_leaves(std::vector<double>* scores) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::trees
