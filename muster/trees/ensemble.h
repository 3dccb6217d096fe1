// The result of gradient boosting: decision trees whose leaves are added up.
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

// A node of a tree: an example goes left or right, or ends in a leaf.
struct Node {
  int32_t feature = -1;       // index in Ensemble::features; -1: a leaf
  double threshold = 0;       // left when x <= threshold; for a category: when x equals it
  bool category = false;      // the feature is categorical
  bool missing_left = false;  // whether NaN goes left
  int32_t left = -1;          // indices in Tree::nodes
  int32_t right = -1;
  double gain = 0;   // the reduction of the loss by the split, in second order, times 2; 0 for a
                     // leaf
  double value = 0;  // what the tree would add to the logit if this were a leaf

  // Whether an example whose feature is `x` goes left; NaN means missing.
  bool goes_left(double x) const {
    if (std::isnan(x)) return missing_left;
    return category ? x == threshold : x <= threshold;
  }
  bool operator==(const Node&) const = default;
};

// Node 0 is the root; children come after their parents.
struct MUSTER_EXPORT Tree {
  std::vector<Node> nodes{};

  // Returns the index of an example's leaf. `row` has a value for each feature, NaN if it is
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
  // The largest number of splits for an example.
  int64_t depth() const;
  bool operator==(const Tree&) const = default;
};

// The trees of a model.
struct MUSTER_EXPORT Ensemble {
  std::vector<std::string> features{};  // sorted like the columns of an input
  // Whether a feature is compared in double, because float32 does not distinguish its numbers; all
  // others are rounded to float32 first. Empty: none.
  std::vector<bool> in_double = {};
  std::string objective{};     // "logistic", "softmax" or "squared": the loss of the logits
  int64_t outputs = 1;         // logits of an example
  std::vector<double> bias{};  // added to each logit
  std::vector<Tree> trees{};   // tree i adds to logit i % outputs

  // Trees for each logit.
  int64_t rounds() const { return static_cast<int64_t>(trees.size()) / outputs; }
  // Adds to `logits` ([outputs]) the values of the trees from `first` on for `row` ([features]),
  // one after the other; with `first` = 0 the bias comes first.
  void add_logits(const double* row, double* logits, size_t first = 0) const;
  // Computes what each feature adds to each logit of `row`: on the path to a leaf, each change of
  // Node::value belongs to the feature of the split. `base` ([outputs]) gets the values of the
  // roots and the bias, `contributions` ([features, outputs], row-major) the rest, so that they add
  // up to the logit (Palczewska et al., 2013; TensorFlow calls them directional).
  void explain(const double* row, double* base, double* contributions) const;
  // Whether that feature is compared in float64.
  bool is_in_double(size_t feature) const {
    return feature < in_double.size() && in_double[feature];
  }
  // The sum of the gains of each feature's splits, in the order of `features`.
  std::vector<double> gains() const;

  // Returns it as a checkpoint, with names that begin with "boosted_trees/".
  Checkpoint to_checkpoint(int64_t global_step) const;
  // Throws InvalidArgument for a checkpoint of something else, and Corrupt for invalid trees.
  static Ensemble from_checkpoint(const Checkpoint& checkpoint, const std::string& name);

  bool operator==(const Ensemble&) const = default;
};

}  // namespace muster::inline v0_1::trees
