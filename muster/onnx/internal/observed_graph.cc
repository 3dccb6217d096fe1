#include "muster/onnx/internal/observed_graph.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/remove_mutation.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using torch::jit::Node;
using torch::jit::Stack;
using torch::jit::Value;

// Whether two sizes, or lists of them, are the same.
bool same(const c10::IValue& a, const c10::IValue& b) {
  if (a.isInt() && b.isInt()) return a.toInt() == b.toInt();
  return a.isIntList() && b.isIntList() && a.toIntVector() == b.toIntVector();
}

// Whether the node asks for what no input changes.
bool is_form(const Node& node) {
  return node.kind() == c10::prim::dtype || node.kind() == c10::prim::layout ||
         node.kind() == c10::prim::device || node.kind() == c10::aten::dim;
}

// Replaces a tensor, or the tensors of a list, by their form.
c10::IValue form_of(const c10::IValue& value) {
  const auto form = [](const Tensor& tensor) {
    return tensor.defined() ? at::empty(tensor.sizes(), tensor.options().device(at::kMeta))
                            : tensor;
  };
  if (value.isTensor()) return form(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<Tensor> forms;
  for (const Tensor& tensor : value.toTensorVector()) forms.push_back(form(tensor));
  return forms;
}

[[noreturn]] void refuse(const Node& node, const std::string& what, const std::string& weight) {
  throw invalid_argument(
      fmt::format("not supported: ONNX: {}{} {}", node.kind().toQualString(),
                  weight.empty() ? "" : fmt::format(", after the weight \"{}\",", weight), what),
      "export the model for LibTorch alone, or compute this with other operations");
}

// "net/dense/kernel" of the module's attribute net.dense.kernel.
std::string path_of(const Value* value) {
  const Node& node = *value->node();
  if (node.kind() != c10::prim::GetAttr) return "";
  const std::string outer = path_of(node.input());
  return outer.empty() ? node.s(c10::attr::name) : outer + "/" + node.s(c10::attr::name);
}

}  // namespace

ObservedGraph::ObservedGraph(const torch::jit::Module& module,
                             const std::array<std::vector<Tensor>, 2>& inputs)
    : graph_(module.get_method("forward").graph()->copy()) {
  torch::jit::Inline(*graph_);
  torch::jit::LowerSimpleTuples(graph_);
  torch::jit::RemoveTensorMutation(graph_);
  for (const Node* node : graph_->nodes()) {
    for (const Value* input : node->inputs()) {
      const auto uses = input->uses();
      const auto later = std::ranges::any_of(
          uses, [&](const auto& use) { return use.user != node && !use.user->isBefore(node); });
      if (!later) last_uses_[node].push_back(input);
    }
  }
  const torch::NoGradGuard no_grad;
  values_[graph_->inputs()[0]] = {{module._ivalue(), module._ivalue()}, true, ""};
  for (size_t i = 1; i < graph_->inputs().size(); ++i)
    values_[graph_->inputs()[i]] = {{inputs[0].at(i - 1), inputs[1].at(i - 1)}, false, ""};
  for (const Node* node : graph_->nodes()) {
    run(*node);
    release_after(*node);
  }
}

std::vector<c10::IValue> ObservedGraph::run_once(const Node& node, size_t which) const {
  if (node.kind() == c10::prim::Constant) return {*torch::jit::toIValue(node.output())};
  Stack stack;
  for (const Value* input : node.inputs()) stack.push_back(values_.at(input).runs[which]);
  switch (node.kind()) {
    case c10::prim::GetAttr:
      return {stack[0].toObject()->getAttr(node.s(c10::attr::name))};
    case c10::prim::ListConstruct: {
      c10::impl::GenericList list(node.output()->type()->containedType(0));
      for (const c10::IValue& each : stack) list.push_back(each);
      return {list};
    }
    case c10::prim::ListUnpack:
      return stack[0].toListRef().vec();
    case c10::prim::TupleConstruct:
      return {c10::ivalue::Tuple::create(stack)};
    case c10::prim::TupleUnpack:
      return stack[0].toTupleRef().elements().vec();
    case c10::prim::DictConstruct:
      return {c10::IValue()};  // the results of the module: nothing computes with them
    default:
      node.getOperation()(stack);
      return stack;
  }
}

void ObservedGraph::run(const Node& node) {
  bool constant = true;
  std::string weight;
  for (const Value* input : node.inputs()) {
    const ObservedValue& given = values_.at(input);
    constant = constant && given.constant;
    if (!given.weight.empty() && (weight.empty() || input->node()->kind() == c10::prim::GetAttr))
      weight = given.weight;
  }
  if (node.kind() == c10::prim::Loop) return run_loop(node);
  if (node.kind() == c10::aten::append) return append(node);
  if (!node.blocks().empty()) refuse(node, "is a branch", weight);
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (!constant && schema != nullptr && schema->is_mutable())
    refuse(node, "changes a tensor in place", weight);
  const std::vector<c10::IValue> first = run_once(node, 0);
  // A constant is computed once, so that both runs have the same tensor.
  const std::vector<c10::IValue> second = constant ? first : run_once(node, 1);
  for (size_t i = 0; i < node.outputs().size(); ++i) {
    const Value* output = node.outputs()[i];
    // What is computed of a size may be the same in both runs by chance, the size itself is not.
    const bool fixed =
        constant || is_form(node) || (node.kind() == c10::aten::size && same(first[i], second[i]));
    const std::string path = path_of(output);
    values_[output] = {{first[i], second[i]}, fixed, path.empty() ? weight : path};
  }
}

void ObservedGraph::run_loop(const Node& node) {
  const torch::jit::Block& body = *node.blocks().at(0);
  for (const Value* more : {node.inputs().at(1), body.outputs().at(0)}) {
    const auto given = torch::jit::toIValue(more);
    if (!given || !given->isBool() || !given->toBool()) refuse(node, "may end early", "");
  }
  const std::array<int64_t, 2> outer = steps_;
  for (size_t i = 0; i < 2; ++i) steps_[i] = values_.at(node.inputs()[0]).runs[i].toInt();
  values_[body.inputs()[0]] = {{int64_t{0}, int64_t{0}}, false, ""};
  for (size_t i = 1; i < body.inputs().size(); ++i) {
    values_[body.inputs()[i]] = values_.at(node.inputs()[i + 1]);
    values_[body.inputs()[i]].constant = false;
  }
  for (const Node* inner : body.nodes()) run(*inner);
  for (size_t i = 0; i < node.outputs().size(); ++i) {
    values_[node.outputs()[i]] = values_.at(body.outputs()[i + 1]);
    values_[node.outputs()[i]].constant = false;
  }
  steps_ = outer;
}

// The list gets as many tensors as the loop has steps, of the form of the first.
void ObservedGraph::append(const Node& node) {
  const ObservedValue& added = values_.at(node.inputs()[1]);
  ObservedValue& list = values_.at(node.inputs()[0]);
  list = {{}, false, added.weight};
  for (size_t i = 0; i < 2; ++i) {
    c10::List<Tensor> all;
    for (int64_t step = 0; step < steps_[i]; ++step) all.push_back(added.runs[i].toTensor());
    list.runs[i] = all;
  }
  for (const Value* output : node.outputs()) values_[output] = list;
}

void ObservedGraph::release_after(const Node& node) {
  const auto found = last_uses_.find(&node);
  if (found == last_uses_.end()) return;
  for (const Value* value : found->second) {
    ObservedValue& observed = values_.at(value);
    if (observed.constant) continue;
    for (c10::IValue& run : observed.runs) run = form_of(run);
  }
}

}  // namespace muster::inline v0_1::onnx::internal
