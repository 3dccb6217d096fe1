// What gradient boosting makes: decision trees whose leaves are added up.
// Thread safety: values; concurrent reads are safe.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/checkpoint/checkpoint.h"

namespace muster::inline v0_1::trees {

// A place of a tree where an example goes left or right, or stays.
struct Node {
  int32_t feature = -1;       // place in Ensemble::features; -1: a leaf
  double threshold = 0;       // left when x <= threshold; of a category: when x is that one
  bool category = false;      // a categorical feature is asked
  bool missing_left = false;  // where NaN goes
  int32_t left = -1;          // places in Tree::nodes
  int32_t right = -1;
  double gain = 0;   // what the split takes off the loss, in second order, times 2; 0 for a leaf
  double value = 0;  // what the tree would add to the logit, were this a leaf

  // Whether an example whose feature is `x` goes left; NaN is a missing one.
  bool goes_left(double x) const {
    if (std::isnan(x)) return missing_left;
    return category ? x == threshold : x <= threshold;
  }
  bool operator==(const Node&) const = default;
};

// Node 0 is the root; children stand behind their parents.
struct MUSTER_EXPORT Tree {
  std::vector<Node> nodes{};

  // The place of the leaf of an example. `row` has a value for each feature, NaN where it is
  // missing.
  template <typename Number>
  int32_t leaf(const Number* row) const {
    int32_t at = 0;
    while (nodes[static_cast<size_t>(at)].feature >= 0) {
      const Node& node = nodes[static_cast<size_t>(at)];
      at = node.goes_left(static_cast<double>(row[node.feature])) ? node.left : node.right;
    }
    return at;
  }
  // Splits that an example meets at most.
  int64_t depth() const;
  bool operator==(const Tree&) const = default;
};

// The trees of a model.
struct MUSTER_EXPORT Ensemble {
  std::vector<std::string> features{};  // sorted as the columns of an input are
  // Whether a feature is compared in double, for float32 does not tell its numbers apart; all
  // others are rounded to float32 before. Empty: none is.
  std::vector<bool> in_double = {};
  std::string objective{};     // "logistic", "softmax" or "squared": what logits are for
  int64_t outputs = 1;         // logits of an example
  std::vector<double> bias{};  // added to each logit
  std::vector<Tree> trees{};   // tree i adds to logit i % outputs

  // Trees for each logit.
  int64_t rounds() const { return static_cast<int64_t>(trees.size()) / outputs; }
  // Adds to `logits` ([outputs]) what the trees from `first` on say of `row` ([features]), one
  // after the other; with `first` = 0 the bias before.
  void add_logits(const double* row, double* logits, size_t first = 0) const;
  // What each feature adds to each logit of `row`: along the way to a leaf, the change of
  // Node::value belongs to the feature that was asked. `base` ([outputs]) gets the values of the
  // roots and the bias, `contributions` ([features, outputs], row-major) the rest, so that they add
  // up to the logit (Palczewska et al., 2013; TensorFlow calls them directional).
  void explain(const double* row, double* base, double* contributions) const;
  // Whether that feature is compared in float64.
  bool is_in_double(size_t feature) const {
    return feature < in_double.size() && in_double[feature];
  }
  // The sum of the gains of each feature's splits, in the order of `features`.
  std::vector<double> gains() const;

  // As a checkpoint holds it, under names that begin with "boosted_trees/".
  Checkpoint to_checkpoint(int64_t global_step) const;
  // Throws InvalidArgument for a checkpoint of something else, and Corrupt for trees that cannot
  // be walked.
  static Ensemble from_checkpoint(const Checkpoint& checkpoint, const std::string& name);

  bool operator==(const Ensemble&) const = default;
};

}  // namespace muster::inline v0_1::trees
