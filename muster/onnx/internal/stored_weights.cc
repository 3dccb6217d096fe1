#include "muster/onnx/internal/stored_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "muster/base/unknown_name.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

Tensor tensor_of(const TensorProto& proto) {
  const std::vector<int64_t> shape(proto.dims().begin(), proto.dims().end());
  Tensor tensor = torch::empty(shape, at::TensorOptions(at::kFloat));
  std::memcpy(tensor.data_ptr(), proto.raw_data().data(), tensor.nbytes());
  return tensor;
}

void fill(TensorProto& proto, const std::string& name, const Tensor& value,
          TensorProto::DataType dtype) {
  const Tensor numbers = value.contiguous();
  proto.Clear();
  proto.set_name(name);
  proto.set_data_type(dtype);
  for (const int64_t size : numbers.sizes()) proto.add_dims(size);
  proto.set_raw_data(numbers.data_ptr(), numbers.nbytes());
}

// Gives a value another name wherever a node reads it, in the graphs of nodes too.
void rename_uses(GraphProto& graph, const std::string& from, const std::string& to) {
  for (NodeProto& node : *graph.mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (input == from) input = to;
    }
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) rename_uses(*attribute.mutable_g(), from, to);
    }
  }
  for (auto& output : *graph.mutable_output()) {
    if (output.name() == from) output.set_name(to);
  }
}

// Numbers of 8 bits for each channel, and what they are multiplied by.
struct Quantized {
  Tensor numbers;  // int8, of the weight's shape
  Tensor scales;   // float32 [channels]
};

Quantized quantize(const Tensor& weight, int64_t axis) {
  std::vector<int64_t> others;
  for (int64_t i = 0; i < weight.dim(); ++i) {
    if (i != axis) others.push_back(i);
  }
  const Tensor largest = at::amax(weight.abs(), others, /*keepdim=*/true);
  const Tensor scale = at::where(largest.eq(0), at::ones_like(largest), largest.div(127));
  return {at::clamp(at::round(weight.div(scale)), -127, 127).to(at::kChar),
          scale.reshape({weight.size(axis)})};
}

class Storing {
 public:
  Storing(GraphProto& graph, const std::set<std::string>& weights) : graph_(graph) {
    for (TensorProto& tensor : *graph.mutable_initializer()) {
      if (tensor.data_type() == TensorProto::FLOAT && tensor.dims_size() > 0)
        weights_[tensor.name()] = &tensor;
    }
    // A kernel into which a normalization was folded is a constant.
    std::erase_if(weights_, [&](const auto& each) {
      return !weights.contains(each.first) && !channel_axis(graph_, each.first);
    });
    for (const NodeProto& node : graph.node())
      taken_.insert(node.output().begin(), node.output().end());
    for (const auto& tensor : graph.initializer()) taken_.insert(tensor.name());
  }

  // As float16 or bfloat16, which a Cast widens.
  void narrow(DType dtype, TensorProto::DataType onnx_dtype) {
    for (const auto& [name, tensor] : weights_) {
      const Tensor narrowed = tensor_of(*tensor).to(dtype);
      // Numbers above 65504 have no float16.
      if (!at::isfinite(narrowed).all().item<bool>()) continue;
      const std::string wide = unused(name + "/float32");
      rename_uses(graph_, name, wide);
      fill(*tensor, name, narrowed, onnx_dtype);
      NodeProto& cast = first_node("Cast", {name}, wide);
      auto* to = cast.add_attribute();
      to->set_name("to");
      to->set_type(::onnx::AttributeProto::INT);
      to->set_i(TensorProto::FLOAT);
    }
    place_first_nodes();
  }

  // Moves the axes of weights now that a node would move whenever the model runs: a kernel of
  // Keras's layout becomes one of ONNX's, which integers are multiplied in.
  void move_axes() {
    for (int i = 0; i < graph_.node_size();) {
      const NodeProto node = graph_.node(i);
      const auto found = node.input_size() > 0 ? weights_.find(node.input(0)) : weights_.end();
      Tensor moved;
      if (found != weights_.end() && uses(graph_, found->first) == 1)
        moved = moved_axes(node, tensor_of(*found->second));
      if (!moved.defined()) {
        ++i;
        continue;
      }
      const std::string name = found->first;
      fill(*found->second, name, moved, TensorProto::FLOAT);
      graph_.mutable_node()->DeleteSubrange(i, 1);
      rename_uses(graph_, node.output(0), name);
      i = 0;  // the next node of the chain may be anywhere
    }
  }

  // As int8 for each channel of a product or a convolution; a DequantizeLinear widens them.
  void quantize_weights() {
    for (const auto& [name, tensor] : weights_) {
      const auto axis = channel_axis(graph_, name);
      if (!axis || tensor->dims_size() < 2) continue;
      const Quantized made = quantize(tensor_of(*tensor), *axis);
      const std::string wide = unused(name + "/float32");
      rename_uses(graph_, name, wide);
      fill(*tensor, name, made.numbers, TensorProto::INT8);
      NodeProto& node =
          first_node("DequantizeLinear", {name, add(name + "/scale", made.scales)}, wide);
      set_integer(node, "axis", *axis);
    }
    place_first_nodes();
  }

  // Products and convolutions of integers; the inputs become integers while the model runs. Call
  // quantize_weights() after it for the weights that are left.
  void quantize_products() {
    GraphProto replaced;
    std::map<std::string, std::vector<std::string>> inputs;  // that are integers already
    for (const NodeProto& node : graph_.node()) {
      const bool product = node.op_type() == "MatMul" || is_plain_gemm(node);
      if ((product || node.op_type() == "Conv") && node.input_size() > 1 &&
          weights_.contains(node.input(1)) && rank_of(node.input(1)) > 1 &&
          uses(graph_, node.input(1)) == 1) {
        write_product(replaced, node, product, inputs);
      } else {
        *replaced.add_node() = node;
      }
    }
    graph_.mutable_node()->Swap(replaced.mutable_node());
  }

 private:
  std::string unused(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    return name;
  }

  std::string add(const std::string& wanted, const Tensor& value) {
    const std::string name = unused(wanted);
    TensorProto& tensor = *graph_.add_initializer();
    const bool bytes = value.scalar_type() == at::kByte, longs = value.scalar_type() == at::kLong;
    fill(tensor, name, value,
         bytes   ? TensorProto::UINT8
         : longs ? TensorProto::INT64
                 : TensorProto::FLOAT);
    return name;
  }

  static void set_integer(NodeProto& node, const char* name, int64_t value) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(::onnx::AttributeProto::INT);
    attribute->set_i(value);
  }

  NodeProto& first_node(const char* operation, const std::vector<std::string>& inputs,
                        const std::string& output) {
    NodeProto& node = *first_.add_node();
    node.set_op_type(operation);
    node.set_name(output);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return node;
  }

  // The result of a Transpose or Unsqueeze of a weight; undefined for another node.
  Tensor moved_axes(const NodeProto& node, const Tensor& weight) const {
    if (node.op_type() == "Transpose") {
      for (const auto& attribute : node.attribute()) {
        if (attribute.name() == "perm")
          return weight
              .permute(std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end()))
              .contiguous();
      }
    }
    if (node.op_type() != "Unsqueeze" || node.input_size() < 2) return {};
    for (const TensorProto& tensor : graph_.initializer()) {
      if (tensor.name() != node.input(1) || tensor.raw_data().size() != sizeof(int64_t)) continue;
      int64_t axis = 0;
      std::memcpy(&axis, tensor.raw_data().data(), sizeof(axis));
      return weight.unsqueeze(axis);
    }
    return {};
  }

  // What makes numbers of weights comes before all that reads them.
  void place_first_nodes() {
    for (NodeProto& node : *graph_.mutable_node()) first_.add_node()->Swap(&node);
    graph_.mutable_node()->Swap(first_.mutable_node());
    first_.Clear();
  }

  static int uses(const GraphProto& graph, const std::string& name) {
    int found = 0;
    for (const NodeProto& node : graph.node()) {
      found += static_cast<int>(std::ranges::count(node.input(), name));
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) found += uses(attribute.g(), name);
      }
    }
    return found;
  }

  // The axis of the outputs of the product or convolution that reads the weight, maybe transposed.
  std::optional<int64_t> channel_axis(const GraphProto& graph, const std::string& name) const {
    for (const NodeProto& node : graph.node()) {
      for (const auto& attribute : node.attribute()) {
        if (!attribute.has_g()) continue;
        if (const auto inside = channel_axis(attribute.g(), name)) return inside;
      }
      // [directions, gates * units, ...] is read as one product for each direction.
      const bool recurrent = node.op_type() == "LSTM" || node.op_type() == "GRU";
      if (recurrent && node.input_size() > 2 && (node.input(1) == name || node.input(2) == name))
        return 1;
      if (node.input_size() > 1 && node.input(1) == name) {
        if (node.op_type() == "Conv") return 0;
        if (node.op_type() == "ConvTranspose") return 1;
        if (node.op_type() == "MatMul" || is_plain_gemm(node)) return rank_of(name) - 1;
      }
      if (node.op_type() != "Transpose" || node.input(0) != name) continue;
      const auto moved = channel_axis_of_transposed(node);
      if (moved) return moved;
    }
    return std::nullopt;
  }

  std::optional<int64_t> channel_axis_of_transposed(const NodeProto& transpose) const {
    std::vector<int64_t> order;
    for (const auto& attribute : transpose.attribute()) {
      if (attribute.name() == "perm")
        order.assign(attribute.ints().begin(), attribute.ints().end());
    }
    for (const NodeProto& node : graph_.node()) {
      if (node.input_size() < 2 || node.input(1) != transpose.output(0) || order.empty()) continue;
      if (node.op_type() == "Conv") return order.at(0);
      if (node.op_type() == "ConvTranspose") return order.at(1);
      if (node.op_type() == "MatMul" || is_plain_gemm(node)) return order.back();
    }
    return std::nullopt;
  }

  int64_t rank_of(const std::string& name) const { return weights_.at(name)->dims_size(); }

  // x w + b, without factors.
  static bool is_plain_gemm(const NodeProto& node) {
    return node.op_type() == "Gemm" &&
           std::ranges::all_of(node.attribute(), [](const auto& attribute) {
             return attribute.name() == "alpha" || attribute.name() == "beta" ? attribute.f() == 1
                                                                              : attribute.i() == 0;
           });
  }

  static NodeProto& append(GraphProto& graph, const std::string& operation,
                           const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs) {
    NodeProto& node = *graph.add_node();
    node.set_op_type(operation);
    node.set_name(outputs.front());
    for (const std::string& input : inputs) node.add_input(input);
    for (const std::string& output : outputs) node.add_output(output);
    return node;
  }

  void write_product(GraphProto& to, const NodeProto& node, bool product,
                     std::map<std::string, std::vector<std::string>>& inputs) {
    const std::string weight_name = node.input(1), &y = node.output(0), &x = node.input(0);
    TensorProto& weight = *weights_.at(weight_name);
    const int64_t rank = weight.dims_size();
    const Quantized made = quantize(tensor_of(weight), product ? rank - 1 : 0);
    std::vector<std::string>& quantized = inputs[x];
    if (quantized.empty()) {
      for (const char* part : {"/quantized", "/scale", "/zero"})
        quantized.push_back(unused(x + part));
      append(to, "DynamicQuantizeLinear", {x}, quantized);
    }
    std::vector<std::string> arguments{quantized[0], weight_name, quantized[2]};
    Tensor scales = made.scales;
    if (product) {
      fill(weight, weight_name, made.numbers, TensorProto::INT8);
    } else {
      // onnxruntime has convolutions of uint8 alone.
      fill(weight, weight_name, made.numbers.to(at::kShort).add(128).to(at::kByte),
           TensorProto::UINT8);
      arguments.push_back(add(weight_name + "/zero", torch::full({}, 128, at::kByte)));
      std::vector<int64_t> shape(static_cast<size_t>(rank - 1), 1);
      shape[0] = scales.size(0);
      scales = scales.reshape(shape);
    }
    weights_.erase(weight_name);
    const std::string sums = unused(y + "/integers"), numbers = unused(y + "/numbers"),
                      scale = unused(y + "/scale");
    NodeProto& integers = append(to, product ? "MatMulInteger" : "ConvInteger", arguments, {sums});
    if (!product) *integers.mutable_attribute() = node.attribute();
    set_integer(append(to, "Cast", {sums}, {numbers}), "to", TensorProto::FLOAT);
    append(to, "Mul", {quantized[1], add(weight_name + "/scale", scales)}, {scale});
    if (node.input_size() < 3 || node.input(2).empty()) {
      append(to, "Mul", {numbers, scale}, {y});
      return;
    }
    const std::string scaled = unused(y + "/scaled");
    append(to, "Mul", {numbers, scale}, {scaled});
    std::string bias = node.input(2);
    if (!product) {
      std::vector<int64_t> shape(static_cast<size_t>(rank - 1), 1);
      shape[0] = -1;
      const std::string form = add(bias + "/shape", torch::tensor(shape, at::kLong));
      const std::string reshaped = unused(bias + "/channels");
      append(to, "Reshape", {bias, form}, {reshaped});
      bias = reshaped;
    }
    append(to, "Add", {scaled, bias}, {y});
  }

  GraphProto& graph_;
  GraphProto first_;
  std::map<std::string, TensorProto*> weights_;
  std::set<std::string> taken_;
};

}  // namespace

void store_weights(GraphProto& graph, const std::set<std::string>& weights,
                   const std::string& kind) {
  if (kind == "float32") return;
  Storing storing(graph, weights);
  if (kind == "float16") return storing.narrow(at::kHalf, TensorProto::FLOAT16);
  if (kind == "bfloat16") return storing.narrow(at::kBFloat16, TensorProto::BFLOAT16);
  if (kind != "int8" && kind != "int8_dynamic") {
    throw unknown_name("OnnxOptions::weights", "kind", kind,
                       {"float32", "float16", "bfloat16", "int8", "int8_dynamic"});
  }
  storing.move_axes();
  if (kind == "int8_dynamic") storing.quantize_products();
  storing.quantize_weights();
}

}  // namespace muster::inline v0_1::onnx::internal
