#include "muster/onnx/internal/tree_ensemble.h"

#include <algorithm>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using torch::jit::Node;
using torch::jit::Value;

// A tensor of the trees, as muster/trees names it; undefined if the graph does not use it.
Tensor tensor_of_trees(const ObservedGraph& observed, const std::string& name) {
  for (const Node* node : observed.graph().nodes()) {
    if (node->kind() != c10::prim::GetAttr) continue;
    const ObservedValue& value = observed.at(node->output());
    if (value.weight == "boosted_trees/" + name && value.runs[0].isTensor()) return value.tensor();
  }
  return {};
}

std::vector<int64_t> integers_of(const Tensor& tensor) {
  const Tensor flat = tensor.to(at::kLong).contiguous();
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

std::vector<double> numbers_of(const Tensor& tensor) {
  const Tensor flat = tensor.to(at::kDouble).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

bool is(const Node& node, const char* name) {
  return node.kind() == c10::Symbol::fromQualString(name);
}

// The nodes of all trees, as the attributes of TreeEnsembleRegressor list them.
struct NodeLists {
  std::vector<int64_t> trees, nodes, features, if_true, if_false, missing_true;
  std::vector<std::string> modes;
  std::vector<double> thresholds;
  std::vector<int64_t> leaf_trees, leaf_nodes, leaf_outputs;
  std::vector<double> leaf_values;

  NodeLists(const ObservedGraph& observed, int64_t outputs) {
    const auto tensor = [&](const char* name) { return tensor_of_trees(observed, name); };
    const std::vector<int64_t> roots = integers_of(tensor("roots"));
    const std::vector<int64_t> feature = integers_of(tensor("feature")),
                               left = integers_of(tensor("left")),
                               right = integers_of(tensor("right")),
                               category = integers_of(tensor("category")),
                               missing_left = integers_of(tensor("missing_left"));
    const std::vector<double> threshold = numbers_of(tensor("threshold")),
                              value = numbers_of(tensor("value"));
    int64_t tree = -1;
    for (size_t i = 0; i < feature.size(); ++i) {
      const auto own = static_cast<int64_t>(i);
      if (static_cast<size_t>(tree + 1) < roots.size() &&
          roots[static_cast<size_t>(tree + 1)] == own)
        ++tree;
      const int64_t root = roots[static_cast<size_t>(tree)];
      const bool leaf = left[i] == own;
      trees.push_back(tree);
      nodes.push_back(own - root);
      features.push_back(feature[i]);
      thresholds.push_back(threshold[i]);
      modes.emplace_back(leaf ? "LEAF" : category[i] != 0 ? "BRANCH_EQ" : "BRANCH_LEQ");
      if_true.push_back(leaf ? 0 : left[i] - root);
      if_false.push_back(leaf ? 0 : right[i] - root);
      missing_true.push_back(leaf ? 0 : missing_left[i]);
      if (!leaf) continue;
      leaf_trees.push_back(tree);
      leaf_nodes.push_back(own - root);
      leaf_outputs.push_back(tree % outputs);
      leaf_values.push_back(value[i]);
    }
  }
};

}  // namespace

std::optional<TreesInGraph> find_trees(const ObservedGraph& observed) {
  if (!tensor_of_trees(observed, "roots").defined()) return std::nullopt;
  TreesInGraph found;
  for (const Node* node : observed.graph().nodes()) {
    if (found.matrix == nullptr && is(*node, "aten::gather")) found.matrix = node->inputs()[0];
    if (!is(*node, "aten::to")) continue;
    const Node& sum = *node->inputs()[0]->node();
    const bool adds_bias =
        is(sum, "aten::add") && std::ranges::any_of(sum.inputs(), [&](const Value* input) {
          return input->node()->kind() == c10::prim::GetAttr &&
                 observed.at(input).weight == "boosted_trees/bias";
        });
    if (adds_bias) found.last = node;
  }
  if (found.matrix == nullptr || found.last == nullptr) return std::nullopt;
  return found;
}

std::string add_trees(const ObservedGraph& observed, const std::string& matrix,
                      GraphWriter& writer) {
  const std::vector<double> bias = numbers_of(tensor_of_trees(observed, "bias"));
  const auto outputs = static_cast<int64_t>(bias.size());
  const NodeLists lists(observed, outputs);
  Attributes attributes = {{"n_targets", outputs},
                           {"aggregate_function", std::string("SUM")},
                           {"post_transform", std::string("NONE")},
                           {"nodes_treeids", lists.trees},
                           {"nodes_nodeids", lists.nodes},
                           {"nodes_featureids", lists.features},
                           {"nodes_modes", lists.modes},
                           {"nodes_truenodeids", lists.if_true},
                           {"nodes_falsenodeids", lists.if_false},
                           {"nodes_missing_value_tracks_true", lists.missing_true},
                           {"target_treeids", lists.leaf_trees},
                           {"target_nodeids", lists.leaf_nodes},
                           {"target_ids", lists.leaf_outputs}};
  if (tensor_of_trees(observed, "threshold").scalar_type() == at::kDouble) {
    attributes.emplace_back("nodes_values_as_tensor", torch::tensor(lists.thresholds, at::kDouble));
    attributes.emplace_back("target_weights_as_tensor",
                            torch::tensor(lists.leaf_values, at::kDouble));
    attributes.emplace_back("base_values_as_tensor", torch::tensor(bias, at::kDouble));
  } else {
    attributes.emplace_back("nodes_values", lists.thresholds);
    attributes.emplace_back("target_weights", lists.leaf_values);
    attributes.emplace_back("base_values", bias);
  }
  return writer.add_with_outputs("TreeEnsembleRegressor", {matrix}, attributes, 1, "ai.onnx.ml")
      .front();
}

}  // namespace muster::inline v0_1::onnx::internal
