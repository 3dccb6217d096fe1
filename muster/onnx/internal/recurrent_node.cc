#include "muster/onnx/internal/recurrent_node.h"

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

// Gates in ONNX's order: i, o, f, c of an LSTM; z, r, h of a GRU.
Tensor ordered(const Tensor& weight, bool lstm) {
  if (!lstm) return weight;
  const auto gates = weight.chunk(4, 0);
  return at::cat({gates[0], gates[3], gates[1], gates[2]});
}

// LibTorch's own layers of recurrent networks: aten::lstm and aten::gru.
class LibTorchLayers {
 public:
  explicit LibTorchLayers(Call& call)
      : call_(call), lstm_(call.operation() == "aten::lstm"), weights_(call.constants("params")) {
    if (call.has("batch_sizes") || call.rank("input") != 3)
      call.refuse("takes packed sequences, or one without a batch axis");
    if (call.flag("train") && call.number("dropout") > 0) call.refuse("drops out while it trains");
    if (call.dtype("input") != kFloat32) call.refuse("has a dtype other than float32");
    if (weights_.empty()) call.refuse("has weights that depend on the inputs");
  }

  void write() {
    const bool batch_first = call_.flag("batch_first"), biases = call_.flag("has_biases");
    const int64_t layers = call_.integer("num_layers");
    directions_ = call_.flag("bidirectional") ? 2 : 1;
    const std::vector<std::string> state =
        lstm_ ? call_.list("hx") : std::vector<std::string>{call_.in("hx")};
    std::string x = call_.in("input");
    if (batch_first) x = swapped(x);
    std::vector<std::string> hidden, cell;
    const size_t each = biases ? 4 : 2;
    if (weights_.size() != static_cast<size_t>(layers * directions_) * each)
      call_.refuse("has projections of its state");
    for (int64_t layer = 0; layer < layers; ++layer) {
      RecurrentNode node{.lstm = lstm_, .input = x, .reset_after = true};
      const size_t first = static_cast<size_t>(layer * directions_) * each;
      for (int64_t d = 0; d < directions_; ++d) {
        const size_t at = first + static_cast<size_t>(d) * each;
        node.directions.push_back({.kernel = gates_of(at), .recurrent = gates_of(at + 1)});
        if (!biases) continue;
        node.directions.back().bias = gates_of(at + 2);
        node.directions.back().state_bias = gates_of(at + 3);
      }
      node.kernel_name = weights_[first].second;
      node.recurrent_name = weights_[first + 1].second;
      if (biases) node.bias_name = weights_[first + 2].second;
      node.hidden = of_layer(state[0], layer);
      if (lstm_) node.cell = of_layer(state[1], layer);
      const RecurrentNames made = add_recurrent_node(node, call_.writer());
      hidden.push_back(made.hidden);
      cell.push_back(made.cell);
      x = joined(made.outputs);
    }
    call_.give(batch_first ? swapped(x) : x, 0);
    call_.give(stacked(hidden), 1);
    if (lstm_) call_.give(stacked(cell), 2);
  }

 private:
  std::string swapped(const std::string& x) {
    return call_.add("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  }

  // LibTorch's gates of a GRU are r, z, n.
  Tensor gates_of(size_t index) const {
    const Tensor& weight = weights_[index].first;
    if (lstm_) return weight;
    const auto gates = weight.chunk(3, 0);
    return at::cat({gates[1], gates[0], gates[2]});
  }

  std::string of_layer(const std::string& state, int64_t layer) {
    GraphWriter& writer = call_.writer();
    return call_.add("Slice", {state, writer.integers({layer * directions_}),
                               writer.integers({(layer + 1) * directions_}), writer.integers({0})});
  }

  // [steps, directions, batch, units] -> [steps, batch, directions * units]
  std::string joined(const std::string& outputs) {
    const std::string in_order =
        call_.add("Transpose", {outputs}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    const int64_t units = weights_[1].first.size(1);
    return call_.add("Reshape", {in_order, call_.writer().integers({0, 0, directions_ * units})});
  }

  std::string stacked(const std::vector<std::string>& layers) {
    return layers.size() == 1 ? layers.front()
                              : call_.add("Concat", layers, {{"axis", int64_t{0}}});
  }

  Call& call_;
  const bool lstm_;
  const std::vector<std::pair<Tensor, std::string>> weights_;  // with their names
  int64_t directions_ = 1;
};

void write_layers(Call& call) { LibTorchLayers(call).write(); }

}  // namespace

RecurrentNames add_recurrent_node(const RecurrentNode& node, GraphWriter& writer) {
  std::vector<Tensor> kernels, recurrent, biases;
  for (const RecurrentWeights& each : node.directions) {
    kernels.push_back(ordered(each.kernel, node.lstm));
    recurrent.push_back(ordered(each.recurrent, node.lstm));
    if (!each.bias.defined() && !each.state_bias.defined()) continue;
    const Tensor zeros = at::zeros({each.kernel.size(0)}, each.kernel.options());
    const auto half = [&](const Tensor& bias) {
      return bias.defined() ? ordered(bias, node.lstm) : zeros;
    };
    biases.push_back(at::cat({half(each.bias), half(each.state_bias)}));
  }
  std::vector<std::string> inputs{
      node.input,
      writer.weight(at::stack(kernels), node.kernel_name),
      writer.weight(at::stack(recurrent), node.recurrent_name),
      biases.empty() ? "" : writer.weight(at::stack(biases), node.bias_name),
      node.lengths,
      node.hidden};
  if (node.lstm) inputs.push_back(node.cell);
  while (inputs.back().empty()) inputs.pop_back();
  Attributes attributes = {{"hidden_size", node.directions.front().recurrent.size(1)}};
  if (node.directions.size() == 2)
    attributes.emplace_back("direction", std::string("bidirectional"));
  if (node.gate_activation != "Sigmoid" || node.activation != "Tanh") {
    std::vector<std::string> names;
    for (size_t i = 0; i < node.directions.size(); ++i) {
      names.insert(names.end(), {node.gate_activation, node.activation});
      if (node.lstm) names.push_back(node.activation);
    }
    attributes.emplace_back("activations", names);
  }
  if (!node.lstm) attributes.emplace_back("linear_before_reset", int64_t{node.reset_after ? 1 : 0});
  const auto names =
      writer.add_with_outputs(node.lstm ? "LSTM" : "GRU", inputs, attributes, node.lstm ? 3 : 2);
  return {names[0], names[1], node.lstm ? names[2] : ""};
}

void add_recurrent(OperationMap& map) {
  map["aten::lstm"] = write_layers;
  map["aten::gru"] = write_layers;
}

}  // namespace muster::inline v0_1::onnx::internal
