#include "muster/export/internal/batch_constants.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <unordered_map>
#include <vector>

namespace muster::inline v0_1::internal {
namespace {

using torch::jit::Node;
using torch::jit::Value;

// A constant that is factor x rows + rest.
struct Following {
  Node* node;
  int64_t factor;
  int64_t rest;
};

bool same_value(const c10::IValue& a, const c10::IValue& b) {
  if (a.tagKind() != b.tagKind()) return false;
  if (a.isTensor()) {
    const at::Tensor &x = a.toTensor(), &y = b.toTensor();
    if (x.defined() != y.defined()) return false;
    return !x.defined() || (x.scalar_type() == y.scalar_type() && x.sizes() == y.sizes() &&
                            (x.is_same(y) || at::allclose(x, y, 0, 0, /*equal_nan=*/true)));
  }
  if (a.isDouble()) return a.toDouble() == b.toDouble();
  if (a.isInt()) return a.toInt() == b.toInt();
  if (a.isBool()) return a.toBool() == b.toBool();
  if (a.isString()) return a.toStringRef() == b.toStringRef();
  if (a.isIntList()) return a.toIntVector() == b.toIntVector();
  return true;  // devices and the like do not depend on the batch
}

class Comparison {
 public:
  Comparison(const BatchTrace& trace, const BatchTrace& other) : trace_(trace), other_(other) {}

  bool compare() {
    if (!pair(trace_.graph->inputs(), other_.graph->inputs())) return false;
    auto theirs = other_.graph->nodes().begin();
    for (Node* mine : trace_.graph->nodes()) {
      if (theirs == other_.graph->nodes().end() || !same(mine, *theirs)) return false;
      ++theirs;
    }
    return theirs == other_.graph->nodes().end() &&
           meet(trace_.graph->outputs(), other_.graph->outputs());
  }
  const std::vector<Following>& following() const { return following_; }

 private:
  using Values = at::ArrayRef<Value*>;

  bool pair(Values mine, Values theirs) {
    if (mine.size() != theirs.size()) return false;
    for (size_t i = 0; i < mine.size(); ++i) partners_[mine[i]] = theirs[i];
    return true;
  }

  bool meet(Values mine, Values theirs) const {
    if (mine.size() != theirs.size()) return false;
    for (size_t i = 0; i < mine.size(); ++i) {
      const auto found = partners_.find(mine[i]);
      if (found == partners_.end() || found->second != theirs[i]) return false;
    }
    return true;
  }

  bool same(Node* mine, Node* theirs) {
    if (mine->kind() != theirs->kind() || !mine->blocks().empty() ||
        !meet(mine->inputs(), theirs->inputs()) || !pair(mine->outputs(), theirs->outputs())) {
      return false;
    }
    if (mine->kind() == c10::prim::GetAttr) {
      return mine->s(c10::attr::name) == theirs->s(c10::attr::name);
    }
    return mine->kind() != c10::prim::Constant || same_constant(mine, theirs);
  }

  bool same_constant(Node* mine, Node* theirs) {
    const auto a = torch::jit::toIValue(mine->output()), b = torch::jit::toIValue(theirs->output());
    if (!a || !b) return !a && !b;
    if (same_value(*a, *b)) return true;
    if (!a->isInt() || !b->isInt()) return false;
    const int64_t rows = other_.rows - trace_.rows, step = b->toInt() - a->toInt();
    if (step % rows != 0) return false;
    const int64_t factor = step / rows;
    following_.push_back({mine, factor, a->toInt() - factor * trace_.rows});
    return true;
  }

  const BatchTrace& trace_;
  const BatchTrace& other_;
  std::unordered_map<const Value*, Value*> partners_;
  std::vector<Following> following_;
};

}  // namespace

bool follow_batch(const BatchTrace& trace, const BatchTrace& other) {
  Comparison comparison(trace, other);
  if (!comparison.compare()) return false;
  if (comparison.following().empty()) return true;
  torch::jit::Graph& graph = *trace.graph;
  Value* rows = nullptr;
  {
    const torch::jit::WithInsertPoint first(*graph.nodes().begin());
    rows = graph.insert(c10::aten::size, {graph.inputs()[1], graph.insertConstant(0)});
  }
  for (const Following& each : comparison.following()) {
    const torch::jit::WithInsertPoint here(each.node);
    Value* value = rows;
    if (each.factor != 1)
      value = graph.insert(c10::aten::mul, {value, graph.insertConstant(each.factor)});
    if (each.rest != 0)
      value = graph.insert(c10::aten::add, {value, graph.insertConstant(each.rest)});
    each.node->output()->replaceAllUsesWith(value);
    each.node->destroy();
  }
  return true;
}

}  // namespace muster::inline v0_1::internal
