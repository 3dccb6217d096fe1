#include "apps/model/inspect_model.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "muster/base/error.h"
#include "muster/base/missing_file.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/text_table.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/savedmodel/saved_model_description.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/libtorch_error.h"

namespace muster::app {
namespace {

using nlohmann::json;

std::string onnx_form(const ::onnx::TypeProto& type) {
  if (!type.has_tensor_type()) return "not a tensor";
  const auto& tensor = type.tensor_type();
  std::vector<std::string> dims;
  for (const auto& dim : tensor.shape().dim())
    dims.push_back(dim.has_dim_value()   ? std::to_string(dim.dim_value())
                   : dim.has_dim_param() ? dim.dim_param()
                                         : "?");
  std::string dtype = ::onnx::TensorProto::DataType_IsValid(tensor.elem_type())
                          ? ::onnx::TensorProto::DataType_Name(
                                static_cast<::onnx::TensorProto::DataType>(tensor.elem_type()))
                          : "unknown";
  std::ranges::transform(dtype, dtype.begin(), [](unsigned char c) { return std::tolower(c); });
  return fmt::format("{}[{}]",
                     dtype == "float"    ? "float32"
                     : dtype == "double" ? "float64"
                                         : dtype,
                     join(dims, ", "));
}

// The numbers of a tensor; sizes of a damaged file may be anything.
int64_t numbers_of(const ::onnx::TensorProto& tensor) {
  int64_t numbers = 1;
  for (const int64_t size : tensor.dims()) {
    if (size < 0 || __builtin_mul_overflow(numbers, size, &numbers))
      throw corrupt(
          fmt::format("the tensor \"{}\" has an impossible shape", printable(tensor.name())));
  }
  return numbers;
}

uint64_t bytes_of_tensor(const ::onnx::TensorProto& tensor) {
  if (tensor.data_location() != ::onnx::TensorProto::EXTERNAL) return tensor.ByteSizeLong();
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "length") return static_cast<uint64_t>(parse_int(entry.value()).value_or(0));
  }
  return 0;
}

void count_operations(const ::onnx::GraphProto& graph, std::map<std::string, int64_t>& into) {
  for (const auto& node : graph.node()) {
    ++into[node.domain().empty() ? node.op_type() : node.domain() + "." + node.op_type()];
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) count_operations(attribute.g(), into);
    }
  }
}

void add_weight(ModelFile& found, const Tensor& tensor) {
  ++found.weights;
  found.numbers += tensor.numel();
  found.weight_bytes += static_cast<uint64_t>(tensor.nbytes());
}

ModelFile read_torchscript(const std::string& bytes, const std::string& path) {
  ModelFile found{.kind = "TorchScript"};
  try {
    std::istringstream stream(bytes);
    const torch::jit::Module module = torch::jit::load(stream);
    for (const auto& parameter : module.parameters()) add_weight(found, parameter);
    for (const auto& buffer : module.buffers()) add_weight(found, buffer);
    const torch::jit::Method forward = module.get_method("forward");
    const c10::FunctionSchema& schema = forward.function().getSchema();
    for (size_t i = 1; i < schema.arguments().size(); ++i)
      found.inputs.emplace_back(schema.arguments()[i].name(), schema.arguments()[i].type()->str());
    for (const auto& result : schema.returns())
      found.outputs.emplace_back("", result.type()->str());
    for (const torch::jit::Node* node : forward.graph()->nodes()) {
      if (node->kind().is_aten()) ++found.operations[node->kind().toUnqualString()];
    }
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const c10::Error*>(&error);
    throw corrupt(fmt::format("{} cannot be loaded: {}", path,
                              known != nullptr ? muster::text_of(*known) : error.what()),
                  "copy the file again, or export the model again");
  }
  found.use =
      "Servable, muster serve and muster export onnx take the folder of the export that it is in";
  return found;
}

ModelFile read_weights(FileSystem& files, const std::string& path) {
  ModelFile found{.kind = "safetensors"};
  const auto reader = open_checkpoint(files, path);
  for (const auto& [name, spec] : reader->specs()) {
    ++found.weights;
    int64_t numbers = 1;
    for (const int64_t size : spec.shape) numbers *= size;
    found.numbers += numbers;
    found.weight_bytes +=
        static_cast<uint64_t>(numbers) * static_cast<uint64_t>(c10::elementSize(spec.dtype));
  }
  found.use = "load_weights() and warm_start_from read it; muster inspect checkpoint lists tensors";
  return found;
}

json rows_of(const std::vector<std::pair<std::string, std::string>>& rows) {
  json all = json::array();
  for (const auto& [name, form] : rows) all.push_back({{"name", name}, {"form", form}});
  return all;
}

std::string table_of(const char* title,
                     const std::vector<std::pair<std::string, std::string>>& rows) {
  if (rows.empty()) return "";
  TextTable table({title, "form"});
  for (const auto& [name, form] : rows) table.add({name, form});
  return "\n" + table.text("  ");
}

}  // namespace

ModelFile onnx_model_of(const std::string& bytes, const std::string& path) {
  ::onnx::ModelProto model;
  if (!model.ParseFromString(bytes) || !model.has_graph() || model.opset_import_size() == 0) {
    throw corrupt(path + " is not an ONNX model, or it is cut off",
                  "copy the file again, or export the model again");
  }
  ModelFile found;
  std::vector<std::string> opsets;
  for (const auto& opset : model.opset_import())
    opsets.push_back(opset.domain().empty()
                         ? fmt::format("opset {}", opset.version())
                         : fmt::format("{} {}", opset.domain(), opset.version()));
  found.kind = "ONNX, " + join(opsets, ", ");
  const auto& graph = model.graph();
  for (const auto& tensor : graph.initializer()) {
    ++found.weights;
    found.numbers += numbers_of(tensor);
    found.weight_bytes += bytes_of_tensor(tensor);
  }
  for (const auto& input : graph.input()) {
    const bool weight = std::ranges::any_of(
        graph.initializer(), [&](const auto& tensor) { return tensor.name() == input.name(); });
    if (!weight) found.inputs.emplace_back(input.name(), onnx_form(input.type()));
  }
  for (const auto& output : graph.output())
    found.outputs.emplace_back(output.name(), onnx_form(output.type()));
  count_operations(graph, found.operations);
  if (!model.producer_name().empty()) found.notes.emplace_back("producer", model.producer_name());
  for (const auto& entry : model.metadata_props())
    found.notes.emplace_back(entry.key(), entry.value());
  found.use =
      "onnxruntime runs it; Servable, Predictor, muster serve and muster diff too; "
      "onnx::load_model() makes a layer of it";
  return found;
}

namespace {

constexpr std::string_view kSavedModel = "saved_model.pb";

// Bytes of a saved_model.pb, and its weights next to it.
ModelFile read_saved_model(FileSystem& files, const std::string& path) {
  ModelFile found;
  const std::string bytes = files.read_file(path).value();
  found.file_bytes = bytes.size();
  try {
    const auto model = saved_model::describe_saved_model(bytes_of(bytes));
    found.kind = "SavedModel, " + join(model.tags, ", ");
    for (const auto& [name, signature] : model.signatures) {
      for (const auto& [input, form] : signature.inputs)
        found.inputs.emplace_back(name + ": " + input, form);
      for (const auto& [output, form] : signature.outputs)
        found.outputs.emplace_back(name + ": " + output, form);
      found.notes.emplace_back("method of " + name, signature.method);
    }
    found.operations = model.operations;
  } catch (const Error& error) {
    throw error.with_context(path + " is not a SavedModel, or it is cut off");
  }
  const std::string prefix = join_path(directory_of(path), "variables/variables");
  if (files.exists(prefix + ".index").value()) {
    const tensorflow::BundleReader bundle(files, prefix);
    for (const auto& [name, entry] : bundle.entries()) {
      ++found.weights;
      for (const tensorflow::BundlePiece& piece : entry.pieces) found.weight_bytes += piece.bytes;
      if (const size_t size = tensorflow::element_bytes(entry.dtype); size > 0) {
        int64_t numbers = 1;
        for (const int64_t each : entry.shape) numbers *= each;
        found.numbers += numbers;
      }
    }
  }
  found.use =
      "TensorFlow runs it; Servable, Predictor, muster serve and muster diff too; "
      "saved_model::load_model() makes a layer of it";
  return found;
}

}  // namespace

ModelFile read_model_file(FileSystem& files, const std::string& path) {
  if (base_name(path) == kSavedModel) return read_saved_model(files, path);
  if (const std::string inner = join_path(path, kSavedModel); files.exists(inner).value())
    return read_saved_model(files, inner);
  const auto ends_with = [&](const char* suffix) { return path.ends_with(suffix); };
  if (!ends_with(".onnx") && !ends_with(".pt") && !ends_with(".safetensors")) {
    throw invalid_argument(
        "not supported: inspect model: " + path,
        "it shows files that end with .onnx, .pt or .safetensors, and folders with a "
        "saved_model.pb; muster inspect export shows the folder of an export");
  }
  const uint64_t size = open_named_file(files, path).value()->size().value();
  ModelFile found;
  if (ends_with(".safetensors")) {
    found = read_weights(files, path);
  } else {
    const std::string bytes = files.read_file(path).value();
    found = ends_with(".onnx") ? onnx_model_of(bytes, path) : read_torchscript(bytes, path);
  }
  found.file_bytes = size;
  return found;
}

std::string text_of(const ModelFile& model, const std::string& path) {
  std::string text = fmt::format(
      "{}\n  {}, {} bytes\n  {} tensors of weights, {} numbers, {} bytes\n", path, model.kind,
      with_commas(model.file_bytes), model.weights,
      with_commas(static_cast<uint64_t>(model.numbers)), with_commas(model.weight_bytes));
  text += fmt::format("  use: {}\n", model.use);
  text += table_of("input", model.inputs) + table_of("output", model.outputs);
  if (!model.operations.empty()) {
    TextTable table({"operation", ">times"});
    for (const auto& [name, times] : model.operations) table.add({name, std::to_string(times)});
    text += "\n" + table.text("  ");
  }
  for (const auto& [key, value] : model.notes)
    text += fmt::format("{}  {}: {}\n", &key == &model.notes.front().first ? "\n" : "",
                        printable(key), printable_beginning(value, 200));
  return text;
}

std::string json_of(const ModelFile& model, const std::string& path) {
  json all = {
      {"path", path},
      {"kind", model.kind},
      {"bytes", model.file_bytes},
      {"inputs", rows_of(model.inputs)},
      {"outputs", rows_of(model.outputs)},
      {"operations", model.operations},
      {"weights",
       {{"tensors", model.weights}, {"numbers", model.numbers}, {"bytes", model.weight_bytes}}},
      {"use", model.use}};
  for (const auto& [key, value] : model.notes) all["notes"][key] = value;
  return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace muster::app
