#include "muster/export/internal/size_constants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cmath>
#include <unordered_map>
#include <utility>

namespace muster::inline v0_1::internal {
namespace {

using torch::jit::Node;
using torch::jit::Value;
// One number or value or node of each trace, in the order of the traces.
using Numbers = std::vector<int64_t>;
using Nodes = std::vector<Node*>;

// A number of the graph that differs from trace to trace: an axis of a tensor, or, without a
// tensor, a product of sizes.
struct Measure {
  Numbers numbers{};
  Value* tensor = nullptr;
  int64_t axis = 0;
  std::vector<size_t> factors{};  // sources
};

// A constant that is factor x measure + rest.
struct Following {
  Node* node;
  bool is_double;
  Measure measure;
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
  return true;  // devices and the like do not depend on sizes
}

std::string text_of_value(const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined()
               ? fmt::format("a tensor of shape {}", value.toTensor().sizes().vec())
               : "no tensor";
  }
  if (value.isInt()) return fmt::format("the number {}", value.toInt());
  if (value.isDouble()) return fmt::format("the number {}", value.toDouble());
  return "another value";
}

// The whole numbers that constants are; nothing if one is not whole.
std::optional<Numbers> whole_numbers(const std::vector<c10::IValue>& constants) {
  constexpr double kExact = 1e15;
  Numbers numbers;
  for (const c10::IValue& each : constants) {
    if (each.isInt()) {
      numbers.push_back(each.toInt());
    } else if (each.isDouble() && each.toDouble() == std::trunc(each.toDouble()) &&
               std::abs(each.toDouble()) < kExact) {
      numbers.push_back(static_cast<int64_t>(each.toDouble()));
    } else {
      return std::nullopt;
    }
  }
  return numbers;
}

// Factor and rest with which `numbers` follow `measured`.
std::optional<std::pair<int64_t, int64_t>> line_through(const Numbers& measured,
                                                        const Numbers& numbers) {
  std::optional<int64_t> factor;
  for (size_t i = 1; i < numbers.size(); ++i) {
    const int64_t run = measured[i] - measured[0], rise = numbers[i] - numbers[0];
    if (run == 0 ? rise != 0 : rise % run != 0) return std::nullopt;
    if (run == 0) continue;
    if (factor && *factor != rise / run) return std::nullopt;
    factor = rise / run;
  }
  if (!factor || *factor == 0) return std::nullopt;
  return std::pair(*factor, numbers[0] - *factor * measured[0]);
}

class Comparison {
 public:
  Comparison(const std::vector<SizedTrace>& traces, size_t sources) : traces_(traces) {
    for (size_t i = 0; i < sources; ++i) add_products({i});
    // Axes of tensors come before products of several sizes: they are the nearer explanation.
    for (size_t i = 0; i < sources; ++i) {
      for (size_t j = i; j < sources; ++j) {
        add_products({i, j});
        for (size_t k = j; k < sources; ++k) add_products({i, j, k});
      }
    }
  }

  void compare() {
    std::vector<at::ArrayRef<Value*>> inputs;
    std::vector<torch::jit::Block*> blocks;
    for (const SizedTrace& each : traces_) {
      inputs.push_back(each.graph->inputs());
      blocks.push_back(each.graph->block());
    }
    pair(inputs, "its inputs");
    if (!deviation_) compare_blocks(blocks);
  }
  const std::optional<SizeDeviation>& deviation() const { return deviation_; }
  const std::vector<Following>& following() const { return following_; }

 private:
  using Values = at::ArrayRef<Value*>;

  void add_products(std::vector<size_t> factors) {
    Measure measure{.factors = std::move(factors)};
    for (const SizedTrace& each : traces_) {
      int64_t product = 1;
      for (const size_t factor : measure.factors) product *= each.sizes[factor];
      measure.numbers.push_back(product);
    }
    (measure.factors.size() == 1 ? sizes_ : products_).push_back(std::move(measure));
  }

  void deviate(size_t trace, std::string what) {
    if (!deviation_) deviation_ = {trace, std::move(what)};
  }

  void pair(const std::vector<Values>& values, const std::string& what) {
    for (size_t trace = 1; trace < values.size(); ++trace) {
      if (values[trace].size() != values[0].size()) return deviate(trace, what);
    }
    for (size_t i = 0; i < values[0].size(); ++i) {
      std::vector<Value*>& partners = partners_[values[0][i]];
      partners.clear();
      for (const Values& each : values) partners.push_back(each[i]);
      add_axes(partners);
    }
  }

  // The axes of a tensor that differ from trace to trace may explain later constants.
  void add_axes(const std::vector<Value*>& values) {
    std::vector<std::vector<int64_t>> shapes;
    for (const Value* value : values) {
      const auto type = value->type()->cast<c10::TensorType>();
      if (!type) return;
      const auto shape = type->sizes().concrete_sizes();
      if (!shape || (!shapes.empty() && shape->size() != shapes.front().size())) return;
      shapes.push_back(*shape);
    }
    for (size_t axis = 0; axis < shapes.front().size(); ++axis) {
      Measure measure{.tensor = values.front(), .axis = static_cast<int64_t>(axis)};
      bool differs = false;
      for (const auto& shape : shapes) {
        measure.numbers.push_back(shape[axis]);
        differs = differs || shape[axis] != shapes.front()[axis];
      }
      if (differs) axes_.push_back(std::move(measure));
    }
  }

  void meet(const std::vector<Values>& values, const std::string& what) {
    for (size_t trace = 1; trace < values.size(); ++trace) {
      bool fits = values[trace].size() == values[0].size();
      for (size_t i = 0; fits && i < values[0].size(); ++i) {
        const auto found = partners_.find(values[0][i]);
        fits = found != partners_.end() && found->second[trace] == values[trace][i];
      }
      if (!fits) return deviate(trace, what);
    }
  }

  void compare_blocks(const std::vector<torch::jit::Block*>& blocks) {
    const size_t known = axes_.size();
    std::vector<torch::jit::graph_node_list::iterator> at;
    for (auto* block : blocks) at.push_back(block->nodes().begin());
    for (bool more = true; more && !deviation_;) {
      const bool ends = at[0] == blocks[0]->nodes().end();
      for (size_t trace = 1; trace < at.size(); ++trace) {
        if ((at[trace] == blocks[trace]->nodes().end()) != ends)
          return deviate(trace, "it has another number of operations");
      }
      more = !ends;
      if (ends) break;
      Nodes nodes;
      for (auto& each : at) nodes.push_back(*each++);
      compare_nodes(nodes);
    }
    std::vector<Values> outputs;
    for (auto* block : blocks) outputs.push_back(block->outputs());
    if (!deviation_) meet(outputs, "its outputs are computed otherwise");
    axes_.resize(known);  // what is inside of a block is not known outside
  }

  void compare_nodes(const Nodes& nodes) {
    Node* mine = nodes.front();
    const std::string name = mine->kind().toQualString();
    std::vector<Values> inputs, outputs;
    for (size_t trace = 0; trace < nodes.size(); ++trace) {
      Node* theirs = nodes[trace];
      const bool other_weight = mine->kind() == c10::prim::GetAttr &&
                                theirs->kind() == c10::prim::GetAttr &&
                                mine->s(c10::attr::name) != theirs->s(c10::attr::name);
      if (mine->kind() != theirs->kind() || other_weight ||
          mine->blocks().size() != theirs->blocks().size()) {
        return deviate(trace, other_weight ? "it reads another weight"
                                           : fmt::format("it computes {} in place of {}",
                                                         theirs->kind().toQualString(), name));
      }
      inputs.push_back(theirs->inputs());
      outputs.push_back(theirs->outputs());
    }
    meet(inputs, fmt::format("{} has other arguments", name));
    if (deviation_) return;
    for (size_t block = 0; block < mine->blocks().size(); ++block) {
      std::vector<torch::jit::Block*> blocks;
      std::vector<Values> block_inputs;
      for (Node* each : nodes) {
        blocks.push_back(each->blocks()[block]);
        block_inputs.push_back(each->blocks()[block]->inputs());
      }
      pair(block_inputs, fmt::format("{} has other arguments", name));
      if (deviation_) return;
      compare_blocks(blocks);
      if (deviation_) return;
    }
    pair(outputs, fmt::format("{} has other results", name));
    if (!deviation_ && mine->kind() == c10::prim::Constant) compare_constants(nodes);
  }

  void compare_constants(const Nodes& nodes) {
    std::vector<c10::IValue> constants;
    for (Node* each : nodes) {
      const auto value = torch::jit::toIValue(each->output());
      if (!value) return;
      constants.push_back(*value);
    }
    size_t differs = 0;
    for (size_t trace = constants.size(); trace-- > 1;) {
      if (!same_value(constants[0], constants[trace])) differs = trace;
    }
    if (differs == 0) return;
    if (const auto numbers = whole_numbers(constants)) {
      for (const auto* measures : {&sizes_, &axes_, &products_}) {
        // The nearest tensor first.
        for (auto measure = measures->rbegin(); measure != measures->rend(); ++measure) {
          if (const auto line = line_through(measure->numbers, *numbers)) {
            following_.push_back(
                {nodes.front(), constants.front().isDouble(), *measure, line->first, line->second});
            return;
          }
        }
      }
    }
    const auto& uses = nodes.front()->output()->uses();
    deviate(differs, fmt::format("{} is given {} in place of {}",
                                 uses.empty() ? "an operation" : operation_of(*uses.front().user),
                                 text_of_value(constants[differs]), text_of_value(constants[0])));
  }

  // The operation that a constant is for: lists of numbers are nodes of their own.
  static std::string operation_of(const Node& user) {
    const bool list = user.kind() == c10::prim::ListConstruct && !user.output()->uses().empty();
    return (list ? user.output()->uses().front().user : &user)->kind().toQualString();
  }

  const std::vector<SizedTrace>& traces_;
  std::vector<Measure> sizes_, axes_, products_;
  std::unordered_map<const Value*, std::vector<Value*>> partners_;
  std::vector<Following> following_;
  std::optional<SizeDeviation> deviation_;
};

// Writes expressions of sizes into a graph.
class Expressions {
 public:
  Expressions(torch::jit::Graph& graph, const std::vector<SizeSource>& sources) : graph_(graph) {
    const torch::jit::WithInsertPoint first(*graph.nodes().begin());
    for (const SizeSource& source : sources) {
      sizes_.push_back(graph.insert(c10::aten::size, {graph.inputs()[source.argument + 1],
                                                      graph.insertConstant(source.axis)}));
    }
  }

  void replace(const Following& constant) {
    const torch::jit::WithInsertPoint here(constant.node);
    Value* value = value_of(constant.measure);
    if (constant.factor != 1)
      value = graph_.insert(c10::aten::mul, {value, graph_.insertConstant(constant.factor)});
    if (constant.rest != 0)
      value = graph_.insert(c10::aten::add, {value, graph_.insertConstant(constant.rest)});
    if (constant.is_double)
      value = graph_.insert(c10::Symbol::fromQualString("aten::Float"), {value});
    constant.node->output()->replaceAllUsesWith(value);
    constant.node->destroy();
  }

 private:
  Value* value_of(const Measure& measure) {
    if (measure.tensor != nullptr) {
      return graph_.insert(c10::aten::size, {measure.tensor, graph_.insertConstant(measure.axis)});
    }
    Value* value = sizes_[measure.factors.front()];
    for (size_t i = 1; i < measure.factors.size(); ++i)
      value = graph_.insert(c10::aten::mul, {value, sizes_[measure.factors[i]]});
    return value;
  }

  torch::jit::Graph& graph_;
  std::vector<Value*> sizes_;
};

}  // namespace

std::optional<SizeDeviation> follow_sizes(const std::vector<SizedTrace>& traces,
                                          const std::vector<SizeSource>& sources) {
  Comparison comparison(traces, sources.size());
  comparison.compare();
  if (comparison.deviation()) return comparison.deviation();
  if (comparison.following().empty()) return std::nullopt;
  Expressions expressions(*traces.front().graph, sources);
  for (const Following& each : comparison.following()) expressions.replace(each);
  return std::nullopt;
}

}  // namespace muster::inline v0_1::internal
