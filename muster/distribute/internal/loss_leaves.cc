#include "muster/distribute/internal/loss_leaves.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <unordered_set>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute::internal {

LossLeaves leaves_of(const Tensor& loss, const VariableTable& table) {
  std::unordered_set<const at::TensorImpl*> own;
  for (const auto& variable : table.variables()) {
    own.insert(variable->value().unsafeGetTensorImpl());
    for (const auto& use : variable->row_uses()) own.insert(use.rows.unsafeGetTensorImpl());
  }
  std::unordered_set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  LossLeaves leaves;
  if (!loss.defined() || !loss.requires_grad()) return leaves;
  visit(torch::autograd::impl::gradient_edge(loss).function.get());
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      if (own.contains(leaf->variable.unsafeGetTensorImpl())) {
        leaves.variables = true;
      } else {
        leaves.others.push_back(muster::describe(leaf->variable));
      }
    }
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  return leaves;
}

}  // namespace muster::inline v0_1::distribute::internal
