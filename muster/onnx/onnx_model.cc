#include "muster/onnx/onnx_model.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <nlohmann/json.hpp>

#include "muster/onnx/checked_model.h"
#include "muster/onnx/graph_of.h"
#include "muster/onnx/internal/stored_weights.h"

// A program that links the part refers to this name, so that the linker takes this file out of the
// archive.
extern "C" {
extern const int muster_onnx_linked;
const int muster_onnx_linked = 1;
}

namespace muster::inline v0_1::onnx {
namespace {

using nlohmann::json;

[[maybe_unused]] const bool registered = [] {
  register_model_format(
      {.name = "onnx",
       .file = "model.onnx",
       .write = [](FileSystem& files, const ExportedModel& model, const std::string& path) {
         return write_onnx(files, model, path);
       }});
  return true;
}();

// Where a tensor begins in a file of weights: memory that is mapped is used in place.
constexpr uint64_t kAlignment = 4096;

json json_of(const std::map<std::string, TensorInfo>& tensors) {
  json all = json::object();
  for (const auto& [name, info] : tensors)
    all[name] = {{"dtype", dtype_name(info.dtype)}, {"shape", info.shape}};
  return all;
}

// What clients know by signatures.json of an export.
std::string signatures_of(const ExportedModel& model, const ConvertedGraph& converted) {
  json all = json::object();
  for (const auto& [name, signature] : model.signatures) {
    json& one = all[name];
    one = {{"method", method_name(signature.method)},
           {"inputs", json_of(signature.inputs)},
           {"outputs", converted.outputs.at(name)}};
    if (!signature.classes.empty()) one["classes"] = signature.classes;
    for (const auto& [input, words] : signature.texts)
      one["texts"][input] = {{"words", words.words}, {"unknown", words.unknown}};
    if (!signature.may_be_missing.empty()) one["may_be_missing"] = signature.may_be_missing;
  }
  return all.dump();
}

void add_metadata(::onnx::ModelProto& proto, const std::string& key, const std::string& value) {
  auto* entry = proto.add_metadata_props();
  entry->set_key(key);
  entry->set_value(value);
}

::onnx::ModelProto model_of(const ExportedModel& model, const OnnxOptions& options) {
  ConvertedGraph converted = graph_of(model);
  internal::store_weights(converted.graph, converted.weights, options.weights);
  ::onnx::ModelProto proto = checked_model(converted);
  proto.set_doc_string(
      model.columns != nullptr
          ? "Exported by Muster. Feature columns in front of the model are not in this file: it "
            "takes their results."
          : "Exported by Muster.");
  add_metadata(proto, "muster.global_step", std::to_string(model.global_step));
  add_metadata(proto, "muster.signatures", signatures_of(model, converted));
  return proto;
}

uint64_t bytes_of_weights(const ::onnx::GraphProto& graph) {
  uint64_t bytes = 0;
  for (const auto& tensor : graph.initializer()) bytes += tensor.raw_data().size();
  return bytes;
}

// Moves the weights to a file of their own.
void write_weights(FileSystem& files, const std::string& path, ::onnx::GraphProto& graph) {
  const std::string name(base_name(path));
  auto staged = files.open_staged(path).value();
  uint64_t offset = 0;
  for (auto& tensor : *graph.mutable_initializer()) {
    const uint64_t begin = (offset + kAlignment - 1) / kAlignment * kAlignment;
    const std::string padding(begin - offset, '\0');
    staged->append(bytes_of(padding)).value();
    staged->append(bytes_of(tensor.raw_data())).value();
    offset = begin + tensor.raw_data().size();
    const auto add = [&tensor](const char* key, const std::string& value) {
      auto* entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    add("location", name);
    add("offset", std::to_string(begin));
    add("length", std::to_string(tensor.raw_data().size()));
    tensor.set_data_location(::onnx::TensorProto::EXTERNAL);
    tensor.clear_raw_data();
  }
  staged->commit().value();
}

}  // namespace

std::vector<std::string> write_onnx(FileSystem& files, const ExportedModel& model,
                                    const std::string& path, const OnnxOptions& options) {
  ::onnx::ModelProto proto = model_of(model, options);
  std::vector<std::string> written{std::string(base_name(path))};
  if (bytes_of_weights(proto.graph()) >= options.external_data_from) {
    written.push_back(written.front() + ".data");
    write_weights(files, path + ".data", *proto.mutable_graph());
  }
  files.write_atomically(path, proto.SerializeAsString()).value();
  return written;
}

std::vector<std::string> export_onnx(FileSystem& files, const std::string& folder,
                                     const std::string& path, const OnnxOptions& options) {
  return write_onnx(files, read_export(files, folder), path, options);
}

}  // namespace muster::inline v0_1::onnx
