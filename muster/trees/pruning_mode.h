// What becomes of weak splits of a tree. Thread safety: a value.
#pragma once

namespace muster::inline v0_1::trees {

// When a split whose gain is not above tree_complexity is taken back.
enum class PruningMode {
  kNone,  // never: tree_complexity must be 0
  kPre,   // at once: a node that no better split is found for stays a leaf
  kPost,  // when the tree has grown: from the leaves up, so that a weak split with a strong one
          // below it stays
};

}  // namespace muster::inline v0_1::trees
