#include "muster/export/internal/trace.h"

#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cctype>
#include <memory>
#include <set>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/libtorch_error.h"

namespace muster::inline v0_1::internal {
namespace {

using torch::jit::Module;

// Names of Python's: others cannot be read back from a module's source.
std::string identifier_of(const std::string& name) {
  std::string result;
  for (const char letter : name)
    result += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0])) != 0)
    result.insert(0, "_");
  static const std::set<std::string> kTaken = {
      "and",  "as",     "assert", "bool",   "break",  "class",  "continue", "def",
      "del",  "dict",   "elif",   "else",   "except", "float",  "for",      "forward",
      "from", "global", "if",     "import", "in",     "int",    "is",       "lambda",
      "list", "None",   "not",    "or",     "pass",   "print",  "raise",    "return",
      "self", "str",    "tensor", "torch",  "True",   "try",    "training", "while",
      "with", "yield",  "False",  "aten",   "prim",   "number", "tuple",    "ops"};
  return kTaken.contains(result) ? result + "_" : result;
}

// Makes names differ that became one.
std::string unused(const std::string& wanted, std::set<std::string>& used) {
  std::string name = wanted;
  for (int i = 2; !used.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

// Weights by the parts of their names, as a tree of modules.
struct Tree {
  std::map<std::string, Tree> children;
  Tensor weight;  // of the name that ends here

  void add(const std::string& name, const Tensor& value) {
    Tree* node = this;
    for (const std::string& part : split(name, '/')) node = &node->children[part];
    node->weight = value;
  }

  void fill(Module& module) const {
    std::set<std::string> used;
    for (const auto& [part, child] : children) {
      const std::string name = unused(identifier_of(part), used);
      if (child.weight.defined())
        module.register_parameter(name, child.weight, /*is_buffer=*/!child.weight.requires_grad());
      if (child.children.empty()) continue;
      Module inner(c10::QualifiedName("__torch__." + identifier_of(part)),
                   module._ivalue()->compilation_unit(), /*shouldMangle=*/true);
      inner.register_attribute("training", c10::BoolType::get(), false);
      child.fill(inner);
      module.register_module(child.weight.defined() ? unused(name, used) : name, inner);
    }
  }
};

Module module_of(const std::vector<std::pair<std::string, Tensor>>& weights) {
  Module module("__torch__.Model");
  module.register_attribute("training", c10::BoolType::get(), false);
  Tree tree;
  for (const auto& [name, value] : weights) tree.add(name, value);
  tree.fill(module);
  return module;
}

torch::jit::Stack trace_outputs(const TraceSource& source, const NamedTensors& names,
                                const torch::jit::Stack& stack) {
  NamedTensors inputs;
  size_t place = 0;
  for (const auto& [name, unused_value] : names) inputs[name] = stack[place++].toTensor();
  c10::Dict<std::string, Tensor> outputs;
  for (auto& [name, tensor] : source.function(inputs)) {
    if (!torch::jit::tracer::getTracingState()->hasValue(tensor)) {
      throw invalid_argument(
          fmt::format("not supported: exporting the output \"{}\", {}: it was computed without "
                      "LibTorch, or of no feature",
                      name, describe(tensor)),
          "compute it of the features with operations on tensors");
    }
    outputs.insert(name, tensor);
  }
  return {outputs};
}

// Whether the operation computes with a chance that its arguments do not turn off: dropout has one
// in training alone.
bool draws(const torch::jit::Node& node) {
  if (!node.isNondeterministic()) return false;
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr) return true;
  for (size_t i = 0; i < schema->arguments().size(); ++i) {
    const std::string& name = schema->arguments()[i].name();
    if (name != "train" && name != "training") continue;
    const auto given = torch::jit::toIValue(node.inputs()[i]);
    if (given && given->isBool() && !given->toBool()) return false;
  }
  return true;
}

// What is drawn while a model is traced would be drawn again at each request.
void refuse_draws(const torch::jit::Block& block) {
  for (const torch::jit::Node* node : block.nodes()) {
    if (draws(*node)) {
      throw invalid_argument(fmt::format("not supported: exporting {}: it draws random numbers",
                                         node->kind().toDisplayString()),
                             "draw in training alone: a module of LibTorch knows it by "
                             "is_training(), a model function "
                             "by its mode");
    }
    for (const torch::jit::Block* inner : node->blocks()) refuse_draws(*inner);
  }
}

SizedTrace trace_once(const TraceSource& source, const TraceSample& sample, Module& module) {
  const NamedTensors& inputs = sample.inputs;
  torch::jit::Stack stack;
  for (const auto& [name, tensor] : inputs) stack.emplace_back(tensor);
  const auto traced = torch::jit::tracer::trace(
      stack, [&](const torch::jit::Stack& given) { return trace_outputs(source, inputs, given); },
      [](const Tensor&) { return std::string(); }, /*strict=*/false, /*force_outplace=*/false,
      &module);
  refuse_draws(*traced.first->graph->block());
  return {traced.first->graph, sample.sizes};
}

void name_arguments(torch::jit::Graph& graph, const NamedTensors& inputs) {
  std::set<std::string> used{"self"};
  graph.inputs()[0]->setDebugName("self");
  size_t place = 1;
  for (const auto& [name, tensor] : inputs) {
    torch::jit::Value* argument = graph.inputs()[place++];
    argument->setType(c10::TensorType::get());  // of any shape
    argument->setDebugName(unused(identifier_of(name), used));
  }
}

}  // namespace

Traced trace(const TraceSource& source) {
  const torch::NoGradGuard no_grad;
  Module module = module_of(source.weights);
  std::vector<SizedTrace> traces;
  for (const TraceSample& sample : source.samples)
    traces.push_back(trace_once(source, sample, module));
  Traced traced{.module = module, .deviation = follow_sizes(traces, source.sources)};
  torch::jit::Graph& graph = *traces.front().graph;
  name_arguments(graph, source.samples.front().inputs);
  torch::jit::Function* forward = module._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*module.type()->name(), "forward"), traces.front().graph);
  module.type()->addMethod(forward);
  return traced;
}

NamedTensors call(const torch::jit::Method& forward, const NamedTensors& inputs) {
  torch::jit::Stack stack;
  stack.reserve(inputs.size() + 1);
  for (const auto& [name, tensor] : inputs) stack.emplace_back(tensor);
  const c10::IValue given = forward(std::move(stack));
  NamedTensors outputs;
  for (const auto& entry : given.toGenericDict())
    outputs[entry.key().toStringRef()] = entry.value().toTensor();
  return outputs;
}

std::string cause_of(const std::exception& error) {
  const auto* known = dynamic_cast<const c10::Error*>(&error);
  std::string text = known != nullptr ? text_of(*known) : error.what();
  constexpr std::string_view kMark = "\nRuntimeError: ";
  if (const size_t mark = text.rfind(kMark); mark != std::string::npos)
    text.erase(0, mark + kMark.size());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace muster::inline v0_1::internal
