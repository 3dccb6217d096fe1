#include "muster/onnx/internal/recurrent_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using torch::jit::Node;
using torch::jit::Value;

// Text longer than this is no LSTM or GRU.
constexpr size_t kLongest = 20000;

// What a loop computes in a step, as text: "sigmoid(add(x0,s0,1))". x0 is the step of the first
// sequence that the text reads, k0 the first constant, s0 the first state that the loop carries.
class StepText {
 public:
  StepText(const Node& loop, const ObservedGraph& observed)
      : body_(*loop.blocks().at(0)), observed_(observed) {}

  std::string of(const Value* value) {
    std::string text = text_of(value);
    return text.size() > kLongest ? "" : text;
  }

  const std::vector<const Value*>& sequences() const { return sequences_; }
  const std::vector<const Value*>& constants() const { return constants_; }

 private:
  static std::string numbered(char letter, std::vector<const Value*>& all, const Value* value) {
    auto found = std::ranges::find(all, value);
    if (found == all.end()) found = all.insert(all.end(), value);
    return fmt::format("{}{}", letter, found - all.begin());
  }

  static std::string literal(const c10::IValue& value) {
    if (value.isInt()) return std::to_string(value.toInt());
    if (value.isDouble()) return fmt::format("{}", value.toDouble());
    if (value.isBool()) return value.toBool() ? "true" : "false";
    return value.isNone() ? "None" : "?";
  }

  std::string text_of(const Value* value) {
    length_ += 1;
    if (length_ > kLongest) return std::string(kLongest + 1, '?');
    const ObservedValue& known = observed_.at(value);
    if (known.constant)
      return known.runs[0].isTensor() ? numbered('k', constants_, value) : literal(known.runs[0]);
    if (value->node() == body_.param_node())
      return value->offset() == 0 ? "step" : fmt::format("s{}", value->offset() - 1);
    const Node& node = *value->node();
    if (node.owningBlock() != &body_) return "outside";
    if (node.kind() == c10::aten::select && node.inputs()[0]->node()->owningBlock() != &body_ &&
        node.inputs()[2] == body_.inputs()[0] && text_of(node.inputs()[1]) == "0")
      return numbered('x', sequences_, node.inputs()[0]);
    // The 1 of "1 - z" is a tensor like z.
    if (node.kind() == c10::aten::full_like) return text_of(node.inputs()[1]);
    std::string text = node.kind().toUnqualString();
    char before = '(';
    for (const Value* input : node.inputs()) {
      text += before + text_of(input);
      before = ',';
    }
    text += before == '(' ? "()" : ")";
    if (node.outputs().size() > 1) text += fmt::format("[{}]", value->offset());
    return text;
  }

  const torch::jit::Block& body_;
  const ObservedGraph& observed_;
  std::vector<const Value*> sequences_, constants_;
  size_t length_ = 0;
};

// A step of an LSTM or a GRU, as StepText shows it. `h` and `c` are its states.
struct StepForm {
  std::string x, h, c, gate, function;
  int64_t units;

  // `text` in the place of "{0}".
  static std::string called(const std::string& function, const std::string& text) {
    return fmt::format(fmt::runtime(function), text);
  }
  static std::string part(const std::string& text, int parts, int index) {
    return fmt::format("ListUnpack(chunk({},{},1))[{}]", text, parts, index);
  }
  std::string lstm_gate(int index) const {
    return part(fmt::format("addmm({},{},k0,1,1)", x, h), 4, index);
  }
  std::string lstm_cell() const {
    return fmt::format("add(mul({},{}),mul({},{}),1)", called(gate, lstm_gate(1)), c,
                       called(gate, lstm_gate(0)), called(function, lstm_gate(2)));
  }
  std::string lstm_hidden() const {
    return fmt::format("mul({},{})", called(gate, lstm_gate(3)), called(function, lstm_cell()));
  }
  std::string next(const std::string& z, const std::string& proposed) const {
    return fmt::format("add(mul({0},{1}),mul(sub(1,{0},1),{2}),1)", z, h, proposed);
  }
  std::string gru_after() const {
    const auto of_x = [&](int index) { return part(x, 3, index); };
    const auto of_state = [&](int index) {
      return part(fmt::format("addmm(k0,{},k1,1,1)", h), 3, index);
    };
    const auto sum = [&](int index) {
      return called(gate, fmt::format("add({},{},1)", of_x(index), of_state(index)));
    };
    return next(sum(0), called(function,
                               fmt::format("add({},mul({},{}),1)", of_x(2), sum(1), of_state(2))));
  }
  std::string gru_before() const {
    const auto gates = fmt::format("addmm(slice({},1,0,{},1),{},k0,1,1)", x, 2 * units, h);
    const auto reset = called(gate, part(gates, 2, 1));
    return next(called(gate, part(gates, 2, 0)),
                called(function, fmt::format("addmm(slice({},1,{},None,1),mul({},{}),k1,1,1)", x,
                                             2 * units, reset, h)));
  }
};

// ONNX's functions, as StepText shows them.
constexpr std::array<std::pair<const char*, const char*>, 5> kFunctions = {
    {{"sigmoid({0})", "Sigmoid"},
     {"tanh({0})", "Tanh"},
     {"relu({0})", "Relu"},
     {"clamp(add(mul({0},0.2),0.5,1),0,1)", "HardSigmoid"},
     {"div({0},add(abs({0}),1,1))", "Softsign"}}};

class LoopMatch {
 public:
  LoopMatch(const Node& loop, const ObservedGraph& observed)
      : loop_(loop), body_(*loop.blocks().at(0)), observed_(observed), text_(loop, observed) {}

  std::optional<RecurrentLoop> find() {
    const size_t states = body_.inputs().size() - 1;
    if (states < 1 || states > 2) return std::nullopt;
    for (size_t hidden = 0; hidden < states; ++hidden) {
      if (matches(hidden, states == 2)) return finished(hidden);
    }
    return std::nullopt;
  }

  // Nodes that compute the sums of the inputs, if the loop alone takes these.
  std::vector<const Node*> absorbed() const {
    std::vector<const Node*> nodes{sums_->node(), sums_->node()->inputs()[0]->node()};
    if (nodes[1]->output()->uses().size() > 1) return {};
    for (const auto& use : sums_->uses()) {
      if (use.user->owningBlock() == &body_) continue;
      const bool counts = use.user->kind() == c10::aten::size &&
                          use.user->output()->uses().size() == 1 &&
                          use.user->output()->uses()[0].user == &loop_;
      if (!counts) return {};
      nodes.push_back(use.user);
    }
    return nodes;
  }

 private:
  bool matches(size_t hidden, bool lstm) {
    loop_form_ = {};
    const Value* next = body_.outputs()[hidden + 1];
    const std::string got = text_.of(next);
    const std::string got_cell = lstm ? text_.of(body_.outputs()[2 - hidden]) : "";
    const bool masked = got.starts_with("where(unsqueeze(x0,1),");
    for (const Node* node : body_.nodes()) {
      if (node->kind() != c10::aten::append) continue;
      if (node->inputs()[1] != next || loop_form_.outputs != nullptr) return false;
      loop_form_.outputs = node->inputs()[0];
    }
    StepForm form{.x = masked ? "x1" : "x0",
                  .h = fmt::format("s{}", hidden),
                  .c = fmt::format("s{}", 1 - hidden),
                  .gate = "",
                  .function = "",
                  .units = observed_.at(next).tensor().size(1)};
    const auto kept = [&](const std::string& value, const std::string& before) {
      return masked ? fmt::format("where(unsqueeze(x0,1),{},{})", value, before) : value;
    };
    RecurrentNode& node = loop_form_.node;
    for (const auto& [gate, gate_name] : kFunctions) {
      for (const auto& [function, name] : kFunctions) {
        form.gate = gate;
        form.function = function;
        node = {.lstm = lstm, .gate_activation = gate_name, .activation = name};
        masked_ = masked;
        if (lstm) {
          if (got == kept(form.lstm_hidden(), form.h) && got_cell == kept(form.lstm_cell(), form.c))
            return true;
          continue;
        }
        node.reset_after = got == kept(form.gru_after(), form.h);
        if (node.reset_after || got == kept(form.gru_before(), form.h)) return true;
      }
    }
    return false;
  }

  // The loop with its inputs and weights; nullopt if one of them is not what ONNX takes.
  std::optional<RecurrentLoop> finished(size_t hidden) {
    if (text_.sequences().size() != (masked_ ? 2U : 1U)) return std::nullopt;
    sums_ = text_.sequences().back();
    RecurrentWeights weights;
    if (!find_input(weights) || !find_recurrent(weights)) return std::nullopt;
    if (masked_ && !find_lengths(text_.sequences().front())) return std::nullopt;
    loop_form_.node.directions = {weights};
    for (size_t i = 0; i + 2 < loop_.inputs().size(); ++i) {
      const Value* state = loop_.inputs()[i + 2];
      loop_form_.is_cell.push_back(i != hidden);
      if (state->node()->kind() == c10::aten::zeros) continue;
      (i == hidden ? loop_form_.hidden : loop_form_.cell) = state;
    }
    // How a runtime ends a row of length 0 that begins with a state differs.
    if (masked_ && (loop_form_.hidden != nullptr || loop_form_.cell != nullptr))
      return std::nullopt;
    return loop_form_;
  }

  std::optional<Tensor> constant(const Value* value) const {
    const ObservedValue& known = observed_.at(value);
    if (!known.constant || !known.runs[0].isTensor() || known.tensor().scalar_type() != kFloat32)
      return std::nullopt;
    return known.tensor();
  }

  bool is_integer(const Value* value, int64_t number) const {
    const ObservedValue& known = observed_.at(value);
    return known.constant && known.runs[0].isInt() && known.runs[0].toInt() == number;
  }

  // The sums [steps, batch, gates * units] are view(addmm(bias, flatten(input, 0, 1), kernel)).
  bool find_input(RecurrentWeights& weights) {
    if (sums_->node()->kind() != c10::aten::view) return false;
    const Node& product = *sums_->node()->inputs()[0]->node();
    const bool biased = product.kind() == c10::aten::addmm;
    if (!biased && product.kind() != c10::aten::mm && product.kind() != c10::aten::matmul)
      return false;
    const size_t first = biased ? 1 : 0;
    const Node& rows = *product.inputs()[first]->node();
    const auto kernel = constant(product.inputs()[first + 1]);
    if (!kernel || rows.kind() != c10::aten::flatten || !is_integer(rows.inputs()[1], 0) ||
        !is_integer(rows.inputs()[2], 1))
      return false;
    weights.kernel = kernel->t();
    loop_form_.node.kernel_name = observed_.at(product.inputs()[first + 1]).weight;
    loop_form_.input = rows.inputs()[0];
    if (observed_.at(loop_form_.input).tensor().dim() != 3) return false;
    if (!biased) return true;
    const auto bias = constant(product.inputs()[0]);
    if (!bias || bias->dim() != 1 || !is_integer(product.inputs()[3], 1) ||
        !is_integer(product.inputs()[4], 1))
      return false;
    weights.bias = *bias;
    loop_form_.node.bias_name = observed_.at(product.inputs()[0]).weight;
    return true;
  }

  bool find_recurrent(RecurrentWeights& weights) {
    RecurrentNode& node = loop_form_.node;
    std::vector<Tensor> constants;
    for (const Value* value : text_.constants()) {
      const auto found = constant(value);
      if (!found) return false;
      constants.push_back(*found);
    }
    const Value* kernel = text_.constants().at(node.reset_after ? 1 : 0);
    node.recurrent_name = observed_.at(kernel).weight;
    if (node.lstm) {
      weights.recurrent = constants.at(0).t();
    } else if (node.reset_after) {
      weights.recurrent = constants.at(1).t();
      weights.state_bias = constants.at(0);
    } else {
      weights.recurrent = at::cat({constants.at(0), constants.at(1)}, 1).t();
    }
    const int64_t sums = (node.lstm ? 4 : 3) * weights.recurrent.size(1);
    return weights.recurrent.size(0) == sums && weights.kernel.size(0) == sums &&
           (!weights.state_bias.defined() || weights.state_bias.dim() == 1);
  }

  // Counts [steps, batch] that are transpose(lt(0 ... steps - 1, lengths)), with more transposes
  // and copies around it.
  bool find_lengths(const Value* counts) {
    bool swapped = false;
    const Value* value = counts;
    while (true) {
      const Node& node = *value->node();
      if (node.kind() == c10::aten::transpose && is_integer(node.inputs()[1], 0) &&
          is_integer(node.inputs()[2], 1)) {
        swapped = !swapped;
      } else if (node.kind() != c10::aten::contiguous) {
        break;
      }
      value = node.inputs()[0];
    }
    const Node& less = *value->node();
    if (!swapped || less.kind() != c10::aten::lt || !is_count(less.inputs()[0])) return false;
    const Node& column = *less.inputs()[1]->node();
    if (column.kind() != c10::aten::unsqueeze || !is_integer(column.inputs()[1], 1)) return false;
    const Tensor lengths = observed_.at(column.inputs()[0]).tensor();
    if (lengths.dim() != 1 || !at::isIntegralType(lengths.scalar_type(), /*includeBool=*/false))
      return false;
    loop_form_.lengths = column.inputs()[0];
    loop_form_.counts = counts;
    return true;
  }

  // Whether a tensor is 0, 1, 2 ... .
  bool is_count(const Value* value) const {
    const ObservedValue& known = observed_.at(value);
    if (!known.runs[0].isTensor() || known.tensor().dim() != 1) return false;
    if (known.constant) return known.tensor().equal(at::arange(known.tensor().numel()));
    const Node& node = *value->node();
    return node.kind() == c10::aten::arange && node.maybeSchema() != nullptr &&
           node.maybeSchema()->arguments().at(0).name() == "end";
  }

  const Node& loop_;
  const torch::jit::Block& body_;
  const ObservedGraph& observed_;
  StepText text_;
  RecurrentLoop loop_form_;
  const Value* sums_ = nullptr;
  bool masked_ = false;
};

}  // namespace

RecurrentLoops find_recurrent_loops(const ObservedGraph& observed) {
  RecurrentLoops found;
  for (const Node* node : observed.graph().nodes()) {
    if (node->kind() != c10::prim::Loop) continue;
    LoopMatch match(*node, observed);
    auto loop = match.find();
    if (!loop) continue;
    found.loops[node] = *std::move(loop);
    const auto absorbed = match.absorbed();
    found.absorbed.insert(absorbed.begin(), absorbed.end());
  }
  return found;
}

std::string write_recurrent_loop(const RecurrentLoop& loop, Call& call) {
  GraphWriter& writer = call.writer();
  RecurrentNode node = loop.node;
  node.input = call.name_of(loop.input);
  const auto state = [&](const Value* value) {
    return value == nullptr ? ""
                            : call.add("Unsqueeze", {call.name_of(value), writer.integers({0})});
  };
  node.hidden = state(loop.hidden);
  node.cell = state(loop.cell);
  if (loop.lengths != nullptr) {
    const std::string lengths =
        call.cast(call.name_of(loop.lengths), call.form_of(loop.lengths).scalar_type(), at::kLong);
    const std::string at_least = call.add("Max", {lengths, writer.integers({0})});
    const std::string at_most = call.add("Min", {at_least, call.size_at(node.input, 0)});
    node.lengths = call.cast(at_most, at::kLong, at::kInt);
  }
  const RecurrentNames made = add_recurrent_node(node, writer);
  const auto squeezed = [&](const std::string& name, int64_t axis) {
    return call.add("Squeeze", {name, writer.integers({axis})});
  };
  for (size_t i = 0; i < loop.is_cell.size(); ++i)
    call.give(squeezed(loop.is_cell[i] ? made.cell : made.hidden, 0), i);
  const std::string outputs = squeezed(made.outputs, 1);
  if (loop.counts == nullptr) return outputs;
  // A step that does not count repeats the last one that does; ONNX gives 0.
  const std::string counts =
      call.add("Unsqueeze", {call.name_of(loop.counts), writer.integers({2})});
  return call.add("Where", {counts, outputs, made.hidden});
}

}  // namespace muster::inline v0_1::onnx::internal
