// Ensembles of trees of ai.onnx.ml, and its operations on numbers of a table.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "muster/imports/internal/kernels.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using Results = std::vector<Tensor>;

enum class Split { kLeaf, kAtMost, kBelow, kAtLeast, kAbove, kEqual, kOther };

struct TreeNode {
  Split split = Split::kLeaf;
  int64_t feature = 0;
  double threshold = 0;
  bool missing_is_true = false;
  size_t if_true = 0, if_false = 0;
  size_t first_leaf = 0, leaves = 0;  // what a leaf adds: a range of Trees::leaves
};

struct Trees {
  std::vector<TreeNode> nodes;
  std::vector<size_t> roots;
  std::vector<std::pair<int64_t, double>> leaves;  // the output, and the number
  std::vector<double> base;
  std::vector<int64_t> classes;
  int64_t outputs = 1, features = 0;
};

const ImportedAttribute* find(const ImportedNode& node, const std::string& name) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? nullptr : &found->second;
}

std::vector<int64_t> integers_of(const ImportedNode& node, const std::string& name, size_t count,
                                 bool required) {
  const ImportedAttribute* given = find(node, name);
  if (given == nullptr && !required) return std::vector<int64_t>(count, 0);
  if (given == nullptr || given->integers.size() != count)
    refuse_attribute(node, "the attribute \"" + name + "\" does not have a number for each node");
  return given->integers;
}

// Numbers of float32, or as a tensor of any.
std::vector<double> numbers_of(const ImportedNode& node, const std::string& name) {
  if (const ImportedAttribute* given = find(node, name)) return given->numbers;
  const ImportedAttribute* tensor = find(node, name + "_as_tensor");
  if (tensor == nullptr || !tensor->tensor.defined()) return {};
  const Tensor all = tensor->tensor.to(at::kDouble).contiguous();
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

Split split_of(const ImportedNode& node, const std::string& mode) {
  static const std::map<std::string, Split> known = {
      {"LEAF", Split::kLeaf},          {"BRANCH_LEQ", Split::kAtMost}, {"BRANCH_LT", Split::kBelow},
      {"BRANCH_GTE", Split::kAtLeast}, {"BRANCH_GT", Split::kAbove},   {"BRANCH_EQ", Split::kEqual},
      {"BRANCH_NEQ", Split::kOther}};
  const auto found = known.find(mode);
  if (found == known.end()) refuse_attribute(node, "a node of a tree has an unknown mode");
  return found->second;
}

// A child has a later place in a walk than its parent: no way leads back.
void check_trees(const ImportedNode& node, const Trees& trees) {
  std::vector<char> seen(trees.nodes.size(), 0);
  std::vector<size_t> open = trees.roots;
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    if (seen[at]++ != 0) refuse_attribute(node, "a node of a tree has two parents");
    const TreeNode& one = trees.nodes[at];
    if (one.split == Split::kLeaf) continue;
    open.push_back(one.if_true);
    open.push_back(one.if_false);
  }
}

std::shared_ptr<const void> read_trees(const ImportedNode& node) {
  auto trees = std::make_shared<Trees>();
  const bool classifies = node.operation == "ai.onnx.ml.TreeEnsembleClassifier";
  const std::string leaf = classifies ? "class" : "target";
  const ImportedAttribute* modes = find(node, "nodes_modes");
  if (modes == nullptr) refuse_attribute(node, "it has no trees");
  const size_t count = modes->texts.size();
  const auto list = [&](const char* name, bool required = true) {
    return integers_of(node, name, count, required);
  };
  const std::vector<int64_t> ids = list("nodes_treeids"), numbers = list("nodes_nodeids"),
                             features = list("nodes_featureids"), yes = list("nodes_truenodeids"),
                             no = list("nodes_falsenodeids"),
                             missing = list("nodes_missing_value_tracks_true", false);
  const std::vector<double> thresholds = numbers_of(node, "nodes_values");
  if (thresholds.size() != count) refuse_attribute(node, "a node of a tree has no threshold");
  std::map<std::pair<int64_t, int64_t>, size_t> places;
  for (size_t i = 0; i < count; ++i) {
    if (!places.emplace(std::pair(ids[i], numbers[i]), i).second)
      refuse_attribute(node, "two nodes of a tree have one number");
  }
  const auto place = [&](int64_t tree, int64_t number) {
    const auto found = places.find({tree, number});
    if (found == places.end()) refuse_attribute(node, "a tree refers to a node that it has not");
    return found->second;
  };
  std::vector<char> has_parent(count, 0);
  for (size_t i = 0; i < count; ++i) {
    TreeNode one{.split = split_of(node, modes->texts[i]),
                 .feature = features[i],
                 .threshold = thresholds[i],
                 .missing_is_true = missing[i] != 0};
    if (one.split != Split::kLeaf) {
      if (one.feature < 0) refuse_attribute(node, "a feature has a number below 0");
      trees->features = std::max(trees->features, one.feature + 1);
      one.if_true = place(ids[i], yes[i]);
      one.if_false = place(ids[i], no[i]);
      has_parent[one.if_true] = has_parent[one.if_false] = 1;
    }
    trees->nodes.push_back(one);
  }
  for (size_t i = 0; i < count; ++i) {
    if (has_parent[i] == 0) trees->roots.push_back(i);
  }
  check_trees(node, *trees);
  const std::vector<double> values = numbers_of(node, leaf + "_weights");
  const auto leaves = [&](const std::string& name) {
    return integers_of(node, leaf + "_" + name, values.size(), true);
  };
  const std::vector<int64_t> of_tree = leaves("treeids"), of_node = leaves("nodeids"),
                             outputs = leaves("ids");
  if (classifies) {
    if (find(node, "classlabels_int64s") == nullptr)
      refuse_attribute(node, "it has classes of texts, or none");
    trees->classes = find(node, "classlabels_int64s")->integers;
    trees->outputs = static_cast<int64_t>(trees->classes.size());
  } else if (const ImportedAttribute* given = find(node, "n_targets")) {
    trees->outputs = given->integer;
  }
  if (trees->outputs < 1 || trees->outputs > 1'000'000)
    refuse_attribute(node, "its number of outputs is impossible");
  std::vector<std::vector<std::pair<int64_t, double>>> by_node(count);
  for (size_t i = 0; i < values.size(); ++i) {
    if (outputs[i] < 0 || outputs[i] >= trees->outputs)
      refuse_attribute(node, "a leaf has an output that does not exist");
    by_node[place(of_tree[i], of_node[i])].emplace_back(outputs[i], values[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    trees->nodes[i].first_leaf = trees->leaves.size();
    trees->nodes[i].leaves = by_node[i].size();
    trees->leaves.insert(trees->leaves.end(), by_node[i].begin(), by_node[i].end());
  }
  trees->base = numbers_of(node, "base_values");
  return trees;
}

bool takes_first(const TreeNode& node, double x) {
  if (std::isnan(x)) return node.missing_is_true;
  switch (node.split) {
    case Split::kAtMost:
      return x <= node.threshold;
    case Split::kBelow:
      return x < node.threshold;
    case Split::kAtLeast:
      return x >= node.threshold;
    case Split::kAbove:
      return x > node.threshold;
    case Split::kEqual:
      return x == node.threshold;
    default:
      return x != node.threshold;
  }
}

// [rows, outputs] of float64.
Tensor sums_of(NodeRun& call, const Trees& trees, const Tensor& x) {
  call.require(x.dim() == 2 && x.size(1) >= trees.features, "its input has too few features");
  refuse_tracing("an ONNX model with trees", "its trees are no operations of LibTorch");
  const Tensor rows = x.detach().to(at::kCPU, at::kDouble).contiguous();
  const std::string how = call.text_attribute("aggregate_function", "SUM");
  const bool largest = how == "MAX", least = how == "MIN";
  const Tensor result = torch::zeros({rows.size(0), trees.outputs}, at::kDouble);
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const double* row = rows.data_ptr<double>() + i * rows.size(1);
    double* to = result.data_ptr<double>() + i * trees.outputs;
    std::vector<char> given(static_cast<size_t>(trees.outputs), 0);
    for (size_t at : trees.roots) {
      while (trees.nodes[at].split != Split::kLeaf) {
        const TreeNode& node = trees.nodes[at];
        at = takes_first(node, row[node.feature]) ? node.if_true : node.if_false;
      }
      const TreeNode& leaf = trees.nodes[at];
      for (size_t k = leaf.first_leaf; k < leaf.first_leaf + leaf.leaves; ++k) {
        const auto& [output, number] = trees.leaves[k];
        char& first = given[static_cast<size_t>(output)];
        if (largest || least) {
          const double now = to[output];
          to[output] = first == 0 ? number
                       : largest  ? std::max(now, number)
                                  : std::min(now, number);
          first = 1;
        } else {
          to[output] += number;
        }
      }
    }
  }
  return how == "AVERAGE" ? result.div(static_cast<double>(trees.roots.size())) : result;
}

Tensor transformed(NodeRun& call, const Tensor& scores) {
  const std::string how = call.text_attribute("post_transform", "NONE");
  if (how == "NONE") return scores;
  if (how == "LOGISTIC") return at::sigmoid(scores);
  if (how == "SOFTMAX") return at::softmax(scores, 1);
  call.refuse("has the post_transform " + how);
}

Results sum_trees(NodeRun& call) {
  const auto& trees = *static_cast<const Trees*>(call.node().prepared.get());
  const Tensor x = call.in(0);
  Tensor sums = sums_of(call, trees, x);
  if (!trees.base.empty()) {
    call.require(static_cast<int64_t>(trees.base.size()) == trees.outputs,
                 "it does not have a base value for each output");
    sums = sums.add(torch::tensor(trees.base, at::kDouble));
  }
  return {transformed(call, sums).to(call.graph().device(), at::kFloat)};
}

// Scores of classes; of two classes, leaves may have those of the second alone.
Results classify(NodeRun& call) {
  const auto& trees = *static_cast<const Trees*>(call.node().prepared.get());
  Tensor scores = sums_of(call, trees, call.in(0));
  const bool one = std::ranges::all_of(
      trees.leaves, [&](const auto& leaf) { return leaf.first == trees.leaves.front().first; });
  if (one && trees.outputs <= 2 && !trees.leaves.empty()) {
    Tensor second = scores.select(1, trees.leaves.front().first);
    if (!trees.base.empty()) second = second.add(trees.base.back());
    const bool logistic = call.text_attribute("post_transform", "NONE") == "LOGISTIC";
    if (logistic) second = at::sigmoid(second);
    const bool probabilities = logistic || std::ranges::all_of(trees.leaves, [](const auto& leaf) {
                                 return leaf.second >= 0;
                               });
    scores = at::stack({probabilities ? at::rsub(second, 1) : second.neg(), second}, 1);
    const Tensor place = second.gt(probabilities ? 0.5 : 0.0).to(at::kLong);
    call.require(trees.classes.size() == 2, "it has one class");
    return {torch::tensor(trees.classes, at::kLong).index_select(0, place), scores.to(at::kFloat)};
  }
  if (!trees.base.empty()) {
    call.require(static_cast<int64_t>(trees.base.size()) == trees.outputs,
                 "it does not have a base value for each class");
    scores = scores.add(torch::tensor(trees.base, at::kDouble));
  }
  const Tensor place = at::argmax(scores, 1);
  return {torch::tensor(trees.classes, at::kLong).index_select(0, place),
          transformed(call, scores).to(at::kFloat)};
}

Tensor list_attribute(NodeRun& call, const char* name) {
  return torch::tensor(call.attribute(name).numbers, at::kFloat).to(call.graph().device());
}

Results scale_features(NodeRun& call) {
  return {call.in(0)
              .to(at::kFloat)
              .sub(list_attribute(call, "offset"))
              .mul(list_attribute(call, "scale"))};
}

Results extract_features(NodeRun& call) {
  const Tensor x = call.in(0);
  return {x.index_select(x.dim() - 1, call.in(1).to(at::kLong).reshape({-1}))};
}

Results normalize_rows(NodeRun& call) {
  const Tensor x = call.in(0).to(at::kFloat);
  const std::string norm = call.text_attribute("norm", "MAX");
  const int64_t last = x.dim() - 1;
  const Tensor size = norm == "L1"   ? x.abs().sum(last, /*keepdim=*/true)
                      : norm == "L2" ? at::sqrt(x.mul(x).sum(last, /*keepdim=*/true))
                                     : at::amax(x, {last}, /*keepdim=*/true);
  return {x.div(size)};
}

Results regress_linearly(NodeRun& call) {
  const Tensor x = call.in(0).to(at::kFloat);
  const int64_t targets = call.integer_attribute("targets", 1);
  const Tensor weights = list_attribute(call, "coefficients").reshape({targets, -1});
  const Tensor y = at::matmul(x, weights.t());
  return {transformed(
      call, call.has_attribute("intercepts") ? y.add(list_attribute(call, "intercepts")) : y)};
}

}  // namespace

void add_tree_kernels(KernelMap& map) {
  map["ai.onnx.ml.ArrayFeatureExtractor"] = {extract_features, 2};
  map["ai.onnx.ml.LinearRegressor"] = {regress_linearly};
  map["ai.onnx.ml.Normalizer"] = {normalize_rows};
  map["ai.onnx.ml.Scaler"] = {scale_features};
  map["ai.onnx.ml.TreeEnsembleClassifier"] = {.run = classify, .prepare = read_trees};
  map["ai.onnx.ml.TreeEnsembleRegressor"] = {.run = sum_trees, .prepare = read_trees};
}

}  // namespace muster::inline v0_1::onnx::internal
