// The best question to ask at a node.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "muster/trees/internal/bins.h"
#include "muster/trees/internal/gradients.h"

namespace muster::inline v0_1::trees {

// The options that make leaves small and few.
struct Regularization {
  double l1 = 0;               // of the absolute value of a leaf
  double l2 = 0;               // of half its square
  double min_node_weight = 0;  // sum of hessians that a child needs
};

// A node's examples to the left: those in bins 1 to `bin`, or, of a category, in `bin`.
struct Split {
  uint32_t feature = 0;
  uint8_t bin = 0;
  bool category = false;
  bool missing_left = false;
  double gain = 0;
  Sums left{};

  // Whether an example in this bin of the feature goes left.
  bool goes_left(uint8_t in) const {
    if (in == 0) return missing_left;
    return category ? in == bin : in <= bin;
  }
};

// The logit that makes a leaf best: -soft(G, l1) / (H + l2), where soft() moves G by l1 towards 0
// (Chen & Guestrin, 2016, equation 5, with an l1 penalty); 0 if H + l2 is 0.
double leaf_value(const Sums& sums, const Scale& scale, const Regularization& regularization);
// The split of the largest gain, soft(G, l1)^2 / (H + l2) of both children less that of the node,
// which is the decrease of the loss, times 2; among equal ones the first feature and bin. Missing
// values go to the side with the larger gain, and if the node has none, to the heavier child. None
// if no split has a gain above rounding.
std::optional<Split> best_split(std::span<const Sums> histogram, const Sums& node, const Bins& bins,
                                const Scale& scale, const Regularization& regularization);

}  // namespace muster::inline v0_1::trees
