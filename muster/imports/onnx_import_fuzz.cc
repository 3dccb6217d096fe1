// ONNX models of any bytes are read or refused: Corrupt, or InvalidArgument that says what Muster
// does not run.
#include <onnx/onnx_pb.h>

#include "muster/base/error.h"
#include "muster/imports/internal/onnx_graph.h"
#include "muster/tensor/libtorch.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace {

// y = relu(x w + b) with a constant, a branch and external data that are refused.
std::string model_of(int kind) {
  ::onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto& graph = *model.mutable_graph();
  const auto node = [&](::onnx::GraphProto& in, const char* operation,
                        const std::vector<const char*>& inputs, const char* output) {
    auto& made = *in.add_node();
    made.set_op_type(operation);
    for (const char* input : inputs) made.add_input(input);
    made.add_output(output);
    return &made;
  };
  auto& weight = *graph.add_initializer();
  weight.set_name("w");
  weight.set_data_type(::onnx::TensorProto::FLOAT);
  weight.add_dims(2);
  weight.add_dims(1);
  if (kind == 1) {
    weight.set_data_location(::onnx::TensorProto::EXTERNAL);
    auto& entry = *weight.add_external_data();
    entry.set_key("location");
    entry.set_value("../w");
  } else if (kind == 2) {
    weight.add_float_data(1);
    weight.add_float_data(2);
  } else {
    weight.set_raw_data(std::string(8, '\0'));
  }
  auto& input = *graph.add_input();
  input.set_name("x");
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(::onnx::TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("n");
  type.mutable_shape()->add_dim()->set_dim_value(2);
  *graph.add_output() = input;
  graph.mutable_output(0)->set_name("y");
  node(graph, "MatMul", {"x", "w"}, "p");
  if (kind == 3) {
    auto* loop = node(graph, "Loop", {"", "", "p"}, "y");
    auto& body = *loop->add_attribute();
    body.set_name("body");
    body.set_type(::onnx::AttributeProto::GRAPH);
    node(*body.mutable_g(), "Relu", {"p"}, "q");
    body.mutable_g()->add_output()->set_name("q");
  } else {
    node(graph, "Relu", {"p"}, "y");
  }
  return model.SerializeAsString();
}

}  // namespace

std::vector<std::string> muster::fuzz::seeds() {
  return {model_of(0), model_of(1), model_of(2), model_of(3)};
}

std::vector<std::string> muster::fuzz::seed_folders() { return {}; }

// Many empty messages, and graphs in graphs.
std::vector<std::string> muster::fuzz::attacks() {
  const auto field = [](int number, const std::string& body) {
    std::string text(1, static_cast<char>(number << 3 | 2));
    for (size_t size = body.size(); true; size >>= 7) {
      text += static_cast<char>(size < 128 ? size : (size & 127) | 128);
      if (size < 128) return text + body;
    }
  };
  std::string nodes, tensors, nested;
  for (int i = 0; i < 20'000; ++i) {
    nodes += field(1, "");
    tensors += field(5, std::string("\x10\x01\x42\x01", 4) + static_cast<char>('a' + i % 26));
  }
  for (int i = 0; i < 2000; ++i) nested = field(1, "\x22\x02If" + field(5, field(6, nested)));
  const std::string opset = field(8, std::string("\x10\x11", 2));
  return {opset + field(7, nodes), opset + field(7, tensors), opset + field(7, nested)};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  // A tensor of one number has four bytes in the file, and some hundred as a tensor of LibTorch; a
  // node that names its operation and its result takes about as much.
  const fuzz::Meter meter(kParseFixedBytes + 200 * size);
  try {
    const muster::onnx::internal::ImportedModel model =
        muster::onnx::internal::read_onnx_graph(bytes, {&local_file_system(), "/nowhere/m.onnx"});
    for (const auto& node : model.graph.nodes) {
      for (const size_t slot : node.inputs)
        fuzz::require(slot == muster::onnx::internal::kNoSlot || slot < model.slots,
                      "inputs have places");
    }
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kCorrupt ||
                      error.kind() == ErrorKind::kInvalidArgument ||
                      error.kind() == ErrorKind::kNotFound,
                  "the file is to blame");
  }
  return 0;
}
