#include "muster/savedmodel/internal/meta_graph.h"

#include <fmt/format.h>

#include "muster/bundles/saved_model_wire.h"
#include "muster/formats/protobuf.h"
#include "muster/savedmodel/internal/dtypes.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

using formats::internal::Builder;

namespace wire = tensorflow::wire;

constexpr int kSchemaVersion = 1;
// The format of tensor bundles, and how many checkpoints a saver keeps if it saves.
constexpr int kSaverVersion = 2, kMostCheckpoints = 5;

// "dense/MatMul" is "dense/MatMul:0" outside the graph.
std::string tensor_name(const std::string& value) {
  return value.find(':') == std::string::npos ? value + ":0" : value;
}

std::string encode_tensor(const SignatureTensor& tensor) {
  Builder<wire::TensorInfoField> to;
  to.put_bytes(wire::TensorInfoField::kName, tensor_name(tensor.value));
  to.put_varint(wire::TensorInfoField::kDtype, static_cast<int>(tensor.dtype));
  to.put_bytes(wire::TensorInfoField::kShape, formats::internal::encode_shape(tensor.shape));
  return to.take();
}

std::string encode_signature(const GraphSignature& signature) {
  Builder<wire::SignatureField> to;
  for (const auto& [name, tensor] : signature.inputs)
    to.put_bytes(wire::SignatureField::kInput, map_entry(name, encode_tensor(tensor)));
  for (const auto& [name, tensor] : signature.outputs)
    to.put_bytes(wire::SignatureField::kOutput, map_entry(name, encode_tensor(tensor)));
  to.put_bytes(wire::SignatureField::kMethod, "tensorflow/serving/" + signature.method);
  return to.take();
}

// Nodes that make the variables' first values, as TensorFlow asks for, and the entries of the
// collection of variables.
std::string add_initializers(const std::vector<GraphVariable>& variables, TensorflowGraph& graph) {
  Builder<wire::ValuesField> list;
  for (const GraphVariable& variable : variables) {
    const Attributes dtype = {{"dtype", type_value(variable.dtype)}};
    graph.set_label(variable.name + "/Initializer");
    const std::string zeros = graph.add(
        "Fill", {graph.int32s(variable.shape), graph.scalar(0, variable.dtype)},
        {{"T", type_value(variable.dtype)}, {"index_type", type_value(BundleDtype::kInt32)}},
        variable.dtype);
    const std::string assign = graph.add_outside(variable.name + "/Assign", "AssignVariableOp",
                                                 {variable.name, zeros}, dtype, {});
    Builder<wire::VariableField> to;
    to.put_bytes(wire::VariableField::kName, tensor_name(variable.name));
    to.put_bytes(wire::VariableField::kInitializer, assign);
    to.put_bytes(wire::VariableField::kSnapshot,
                 tensor_name(variable.name + "/Read/ReadVariableOp"));
    to.put_varint(wire::VariableField::kIsResource, 1);
    to.put_bytes(wire::VariableField::kInitialValue, tensor_name(zeros));
    list.put_bytes(wire::ValuesField::kValue, to.bytes());
  }
  Builder<wire::CollectionField> collection;
  collection.put_bytes(wire::CollectionField::kBytes, list.bytes());
  return collection.take();
}

std::string add_saver(const std::vector<GraphVariable>& variables, TensorflowGraph& graph) {
  const auto count = static_cast<int64_t>(variables.size());
  const BundleDtype kString = BundleDtype::kString;
  std::vector<std::string> names, values;
  std::vector<BundleDtype> dtypes;
  for (const GraphVariable& variable : variables) {
    names.push_back(variable.name);
    values.push_back(variable.name + "/Read/ReadVariableOp");
    dtypes.push_back(variable.dtype);
  }
  graph.set_label("save");
  const std::string prefix = graph.texts({}, {"model"});
  const std::string file =
      graph.add("PlaceholderWithDefault", {prefix},
                {{"dtype", type_value(kString)}, {"shape", shape_value({})}}, kString);
  const std::string all_names = graph.texts({count}, names);
  const std::string slices = graph.texts({count}, std::vector<std::string>(names.size()));
  std::vector<std::string> inputs{file, all_names, slices};
  inputs.insert(inputs.end(), values.begin(), values.end());
  const Attributes types = {{"dtypes", type_values(dtypes)}};
  const std::string save = graph.add_outside("save/SaveV2", "SaveV2", inputs, types, {});
  const std::string saved =
      graph.add_outside("save/control_dependency", "Identity", {file, "^" + save},
                        {{"T", type_value(kString)}}, {kString});
  const auto restored =
      graph.add_with_outputs("RestoreV2", {file, all_names, slices}, types, dtypes);
  std::vector<std::string> assigned;
  for (size_t i = 0; i < variables.size(); ++i) {
    assigned.push_back("^" + graph.add_outside("save/Assign", "AssignVariableOp",
                                               {variables[i].name, restored[i]},
                                               {{"dtype", type_value(dtypes[i])}}, {}));
  }
  const std::string all = graph.add_outside("save/restore_all", "NoOp", assigned, {}, {});
  Builder<wire::SaverField> saver;
  saver.put_bytes(wire::SaverField::kFile, tensor_name(file));
  saver.put_bytes(wire::SaverField::kSave, tensor_name(saved));
  saver.put_bytes(wire::SaverField::kRestore, all);
  saver.put_varint(wire::SaverField::kMost, kMostCheckpoints);
  saver.put_varint(wire::SaverField::kVersion, kSaverVersion);
  return saver.take();
}

// The collection of the node that TensorFlow runs after it has loaded the graph.
std::string encode_main_operation(const std::string& node) {
  Builder<wire::ValuesField> list;
  list.put_bytes(wire::ValuesField::kValue, node);
  Builder<wire::CollectionField> collection;
  collection.put_bytes(wire::CollectionField::kNodes, list.bytes());
  return map_entry("saved_model_main_op", collection.bytes());
}

std::string encode_asset(const std::string& file, const Asset& asset) {
  Builder<wire::TensorInfoField> tensor;
  tensor.put_bytes(wire::TensorInfoField::kName, tensor_name(asset.node));
  Builder<wire::AssetField> to;
  to.put_bytes(wire::AssetField::kTensor, tensor.bytes());
  to.put_bytes(wire::AssetField::kFile, file);
  return to.take();
}

}  // namespace

std::string encode_saved_model(const MetaGraph& meta, TensorflowGraph& graph) {
  Builder<wire::MetaField> to;
  Builder<wire::InfoField> info;
  info.put_bytes(wire::InfoField::kTag, "serve");
  to.put_bytes(wire::MetaField::kInfo, info.bytes());
  if (!meta.variables.empty()) {
    to.put_bytes(wire::MetaField::kCollection,
                 map_entry("variables", add_initializers(meta.variables, graph)));
    to.put_bytes(wire::MetaField::kSaver, add_saver(meta.variables, graph));
  }
  if (!meta.initializer.empty())
    to.put_bytes(wire::MetaField::kCollection, encode_main_operation(meta.initializer));
  for (const auto& [name, signature] : meta.signatures)
    to.put_bytes(wire::MetaField::kSignature, map_entry(name, encode_signature(signature)));
  for (const auto& [file, asset] : meta.assets)
    to.put_bytes(wire::MetaField::kAsset, encode_asset(file, asset));
  to.put_bytes(wire::MetaField::kGraph, graph.encode());
  Builder<wire::SavedModelField> all;
  all.put_varint(wire::SavedModelField::kVersion, kSchemaVersion);
  all.put_bytes(wire::SavedModelField::kMetaGraph, to.bytes());
  return all.take();
}

}  // namespace muster::inline v0_1::saved_model::internal
