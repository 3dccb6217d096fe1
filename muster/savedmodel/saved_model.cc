#include "muster/savedmodel/saved_model.h"

#include <onnx/onnx_pb.h>

#include "muster/base/bytes.h"
#include "muster/base/strings.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/onnx/checked_model.h"
#include "muster/onnx/graph_of.h"
#include "muster/savedmodel/internal/dtypes.h"
#include "muster/savedmodel/internal/meta_graph.h"
#include "muster/savedmodel/internal/model_graph.h"

// A program that links the part refers to this name, so that the linker takes this file out of the
// archive.
extern "C" {
extern const int muster_saved_model_linked;
const int muster_saved_model_linked = 1;
}

namespace muster::inline v0_1::saved_model {
namespace {

using internal::BundleDtype;
using internal::GraphSignature;
using internal::GraphVariable;
using internal::SignatureTensor;
using internal::TensorflowGraph;
using tensorflow::BundleWriter;

constexpr const char* kFile = "saved_model.pb";
constexpr const char* kVariables = "variables/variables";

[[maybe_unused]] const bool registered = [] {
  register_model_format(
      {.name = "saved_model",
       .file = kFile,
       .write = [](FileSystem& files, const ExportedModel& model, const std::string& path) {
         return write_saved_model(files, model, std::string(directory_of(path)));
       }});
  return true;
}();

class SavedModelWriter {
 public:
  SavedModelWriter(FileSystem& files, const ExportedModel& model, const std::string& folder)
      : files_(files), model_(model), folder_(folder) {}

  std::vector<std::string> write() {
    onnx::ConvertedGraph converted =
        onnx::graph_of(model_, {.tree_ensembles = false, .recurrent_operations = false});
    const auto outputs = converted.outputs;
    const auto weights = converted.weights;
    const ::onnx::ModelProto proto = onnx::checked_model(converted);
    add_inputs();
    const internal::WrittenModel written =
        internal::write_model(proto.graph(), weights, inputs_, graph_);
    add_outputs(written);
    meta_.variables = written.variables;
    for (const auto& [name, signature] : model_.signatures)
      add_signature(name, signature, outputs.at(name));
    const std::string bytes = internal::encode_saved_model(meta_, graph_);
    std::vector<std::string> names{kFile};
    if (!meta_.variables.empty()) {
      write_variables();
      names.insert(names.end(), {std::string(kVariables) + ".index",
                                 std::string(kVariables) + ".data-00000-of-00001"});
    }
    files_.make_directories(folder_).value();
    files_.write_atomically(join_path(folder_, kFile), bytes).value();
    return names;
  }

 private:
  void add_inputs() {
    for (const auto& [name, info] : model_.signatures.at(kServingDefault).inputs) {
      const BundleDtype dtype = internal::tensorflow_dtype(info.dtype);
      inputs_[name] = graph_.add_outside(
          name, "Placeholder", {},
          {{"dtype", internal::type_value(dtype)}, {"shape", internal::shape_value(info.shape)}},
          {dtype});
    }
  }

  // Nodes with the names of the outputs.
  void add_outputs(const internal::WrittenModel& written) {
    for (const auto& [name, value] : written.outputs) {
      const BundleDtype dtype = graph_.dtype(value);
      outputs_[name] = graph_.add_outside(name, "Identity", {value},
                                          {{"T", internal::type_value(dtype)}}, {dtype});
    }
  }

  SignatureTensor tensor_of(const std::string& value, const Shape& shape) const {
    return {value, graph_.dtype(value), shape};
  }

  void add_signature(const std::string& name, const Signature& signature,
                     const std::map<std::string, std::string>& outputs) {
    GraphSignature& made = meta_.signatures[name];
    made.method = method_name(signature.method);
    for (const auto& [input, info] : signature.inputs)
      made.inputs[input] = tensor_of(inputs_.at(input), info.shape);
    for (const auto& [output, info] : signature.outputs)
      made.outputs[output] = tensor_of(outputs_.at(outputs.at(output)), info.shape);
    if (signature.method != SignatureMethod::kClassify) return;
    made.outputs["classes"] =
        tensor_of(names_of_classes(signature.classes, made.outputs.at("scores").value),
                  {-1, static_cast<int64_t>(signature.classes.size())});
  }

  // string [rows, classes]
  std::string names_of_classes(const std::vector<std::string>& classes, const std::string& scores) {
    const auto count = static_cast<int64_t>(classes.size());
    graph_.set_label("classes");
    const BundleDtype kInt32 = BundleDtype::kInt32;
    const std::string sizes = graph_.add("Shape", {scores},
                                         {{"T", internal::type_value(graph_.dtype(scores))},
                                          {"out_type", internal::type_value(kInt32)}},
                                         kInt32);
    return graph_.add_outside(
        "classes/BroadcastTo", "BroadcastTo", {graph_.texts({1, count}, classes), sizes},
        {{"T", internal::type_value(BundleDtype::kString)}, {"Tidx", internal::type_value(kInt32)}},
        {BundleDtype::kString});
  }

  void write_variables() {
    const std::string prefix = join_path(folder_, kVariables);
    files_.make_directories(std::string(directory_of(prefix))).value();
    BundleWriter writer(files_, prefix);
    for (const GraphVariable& variable : meta_.variables)
      writer.add(variable.name, variable.dtype, variable.shape, bytes_of(variable.bytes()));
    writer.end();
  }

  FileSystem& files_;
  const ExportedModel& model_;
  const std::string folder_;
  TensorflowGraph graph_;
  internal::MetaGraph meta_;
  std::map<std::string, std::string> inputs_, outputs_;
};

}  // namespace

std::vector<std::string> write_saved_model(FileSystem& files, const ExportedModel& model,
                                           const std::string& folder) {
  return SavedModelWriter(files, model, folder).write();
}

std::vector<std::string> export_saved_model(FileSystem& files, const std::string& version,
                                            const std::string& folder) {
  return write_saved_model(files, read_export(files, version), folder);
}

}  // namespace muster::inline v0_1::saved_model
