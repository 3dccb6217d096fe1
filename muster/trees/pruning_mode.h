// What to do with weak splits of a tree. Thread safety: a value.
#pragma once

namespace muster::inline v0_1::trees {

// When to remove a split whose gain is not above tree_complexity.
enum class PruningMode {
  kNone,  // never: tree_complexity must be 0
  kPre,   // at once: a node without a better split stays a leaf
  kPost,  // after the tree has grown: from the leaves up, so a weak split above a strong one stays
};

}  // namespace muster::inline v0_1::trees
