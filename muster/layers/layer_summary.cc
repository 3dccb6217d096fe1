#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "muster/layers/internal/mixed_precision_impl.h"
#include "muster/layers/internal/model_layers.h"

namespace muster::inline v0_1 {
namespace {

using internal::GraphLayer;
using internal::GraphNode;

// Rows of cells in columns of fixed width. A cell that is too long continues in the next line, and
// so does a list, after each of its entries.
class Table {
 public:
  // `ends` says where each column ends; the last one is the width.
  explicit Table(std::vector<size_t> ends) : ends_(std::move(ends)) {}

  void add_rule(char letter) { text_ += std::string(ends_.back(), letter) + "\n"; }
  void add_blank() { add_rule(' '); }
  void add_line(const std::string& line) { text_ += line + "\n"; }

  void add_row(std::vector<std::string> cells) {
    const auto left = [](const std::string& cell) { return !cell.empty(); };
    while (std::any_of(cells.begin(), cells.end(), left)) {
      std::string line = " ";
      for (size_t c = 0; c < cells.size(); ++c) {
        const size_t gap = c + 1 < cells.size() ? 2 : 0;
        const size_t room = ends_[c] - (c == 0 ? 0 : ends_[c - 1]) - gap;
        const std::string piece = first_piece(cells[c].substr(0, room));
        cells[c].erase(0, piece.size());
        line += piece + std::string(gap, ' ');
        if (line.size() < ends_[c]) line.resize(ends_[c], ' ');
      }
      add_line(line);
    }
  }

  const std::string& text() const { return text_; }

 private:
  static std::string first_piece(const std::string& text) {
    size_t end = text.size();
    for (const std::string_view separator : {"),", "],", "',"}) {
      const size_t found = text.find(separator);
      if (found != std::string::npos) end = std::min(end, found + separator.size());
    }
    return text.substr(0, end);
  }

  std::vector<size_t> ends_;
  std::string text_;
};

std::string shapes_of(const GraphNode& node) {
  std::vector<std::string> shapes;
  for (size_t i = 0; i < node.tensors; ++i)
    shapes.push_back(internal::keras_shape(node.outputs[i].shape));
  if (shapes.size() == 1 && node.layer) return shapes[0];
  return fmt::format("[{}]", fmt::join(shapes, ", "));
}

std::string shapes_of(const GraphLayer& layer) {
  const std::string shapes = shapes_of(*layer.calls[0]);
  for (const GraphNode* call : layer.calls) {
    if (shapes_of(*call) != shapes) return "multiple";
  }
  return shapes;
}

// Returns "['dense[0][0]']": the layer, which of its calls, and which of the tensors it gave.
std::string connections_of(const GraphLayer& layer, const std::vector<GraphLayer>& layers) {
  std::vector<std::string> connections;
  const auto add = [&](const SymbolicTensor& value) {
    const auto source = internal::source_of(value, layers);
    if (!source) return;
    connections.push_back(fmt::format("'{}[{}][{}]'", source->first->name, source->second,
                                      internal::index_of(value)));
  };
  for (const GraphNode* call : layer.calls) {
    for (const SymbolicTensor& value : call->inputs.tensors) add(value);
    for (const SymbolicTensor& value : call->inputs.state) add(value);
  }
  return fmt::format("[{}]", fmt::join(connections, ", "));
}

std::string with_commas(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string table_of(const std::string& name, const std::vector<GraphLayer>& layers,
                     const internal::ParameterCount& parameters, bool connected) {
  Table table(connected ? std::vector<size_t>{32, 53, 65, 98} : std::vector<size_t>{29, 55, 65});
  table.add_line(fmt::format("Model: \"{}\"", name));
  table.add_rule('_');
  std::vector<std::string> head{"Layer (type)", "Output Shape", "Param #"};
  if (connected) head.push_back("Connected to");
  table.add_row(head);
  table.add_rule('=');
  for (const GraphLayer& layer : layers) {
    const GraphNode& call = *layer.calls[0];
    const internal::ParameterCount own = internal::count_parameters(call.variables);
    std::vector<std::string> cells{fmt::format("{} ({})", layer.name, internal::keras_type(call)),
                                   shapes_of(layer),
                                   std::to_string(own.trainable + own.non_trainable)};
    if (connected) cells.push_back(connections_of(layer, layers));
    table.add_row(cells);
    table.add_blank();
  }
  table.add_rule('=');
  table.add_line("Total params: " + with_commas(parameters.trainable + parameters.non_trainable));
  table.add_line("Trainable params: " + with_commas(parameters.trainable));
  table.add_line("Non-trainable params: " + with_commas(parameters.non_trainable));
  table.add_rule('_');
  return table.text();
}

}  // namespace

std::string Layer::summary(const std::vector<SymbolicTensor>& inputs) const {
  if (const auto* mixed = dynamic_cast<const internal::MixedPrecisionImpl*>(impl_.get())) {
    return mixed->layer().summary(inputs);
  }
  internal::ModelLayers model = internal::model_layers(*this, inputs, "summary");
  const LayerIdentity& identity = impl_->identity();
  const std::string name = identity.given_name.empty() ? identity.class_name : identity.given_name;
  bool connected = false;
  if (model.functional) {
    connected = !internal::is_sequential(model.layers);
  } else {
    std::erase_if(model.layers, [](const GraphLayer& layer) { return !layer.calls[0]->layer; });
  }
  return table_of(name, model.layers, model.parameters, connected);
}

}  // namespace muster::inline v0_1
