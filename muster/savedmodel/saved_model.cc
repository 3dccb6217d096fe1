#include "muster/savedmodel/saved_model.h"

#include <onnx/onnx_pb.h>

#include "muster/base/bytes.h"
#include "muster/base/strings.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/onnx/checked_model.h"
#include "muster/onnx/graph_of.h"
#include "muster/savedmodel/internal/lookup_tables.h"
#include "muster/savedmodel/internal/meta_graph.h"
#include "muster/savedmodel/internal/model_graph.h"
#include "muster/savedmodel/internal/nodes.h"
#include "muster/savedmodel/internal/request_graph.h"

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
using internal::RequestForm;
using internal::SignatureTensor;
using internal::TensorflowGraph;
using tensorflow::BundleWriter;

constexpr const char* kFile = "saved_model.pb";
constexpr const char* kVariables = "variables/variables";
constexpr const char* kAssets = "assets";

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
    const internal::RequestGraph requests = internal::add_requests(model_, graph_, tables_);
    const internal::WrittenModel written =
        internal::write_model(proto.graph(), weights, requests.inputs, graph_);
    add_outputs(written);
    meta_.variables = written.variables;
    for (const auto& [name, signature] : model_.signatures)
      add_signatures(name, signature, outputs.at(name), requests.forms);
    meta_.assets = tables_.assets();
    meta_.initializer = tables_.add_initializer();
    const std::string bytes = internal::encode_saved_model(meta_, graph_);
    std::vector<std::string> names{kFile};
    if (!meta_.variables.empty()) {
      write_variables();
      names.insert(names.end(), {std::string(kVariables) + ".index",
                                 std::string(kVariables) + ".data-00000-of-00001"});
    }
    for (const auto& [file, asset] : meta_.assets) {
      names.push_back(join_path(kAssets, file));
      files_.make_directories(join_path(folder_, kAssets)).value();
      files_.write_atomically(join_path(folder_, names.back()), asset.bytes).value();
    }
    files_.make_directories(folder_).value();
    files_.write_atomically(join_path(folder_, kFile), bytes).value();
    return names;
  }

 private:
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

  // A signature for each form of requests.
  void add_signatures(const std::string& name, const Signature& signature,
                      const std::map<std::string, std::string>& outputs,
                      const std::vector<RequestForm>& forms) {
    std::map<std::string, SignatureTensor> results;
    for (const auto& [output, info] : signature.outputs)
      results[output] = tensor_of(outputs_.at(outputs.at(output)), info.shape);
    if (signature.method == SignatureMethod::kClassify) {
      results["classes"] =
          tensor_of(names_of_classes(signature.classes, results.at("scores").value),
                    {-1, static_cast<int64_t>(signature.classes.size())});
    } else if (signature.method == SignatureMethod::kPredict) {
      add_predicted_classes(name, results);
    }
    for (const RequestForm& form : forms) {
      GraphSignature& made = meta_.signatures[form.prefix + name];
      made.outputs = results;
      // TensorFlow Serving classifies tf.Examples alone; other forms are for its Predict().
      const SignatureMethod method =
          form.prefix.empty() ? signature.method : SignatureMethod::kPredict;
      made.method = method_name(method);
      made.inputs = form.inputs;
      // The name that these methods have for it.
      if (form.of_examples && method != SignatureMethod::kPredict)
        made.inputs = {{"inputs", form.inputs.begin()->second}};
    }
  }

  // For the ids of classes that a head predicts, "<head>/class_ids", the names too. The signature
  // "<head>/classification" has them.
  void add_predicted_classes(const std::string& name,
                             std::map<std::string, SignatureTensor>& results) {
    constexpr std::string_view kIds = "class_ids";
    std::map<std::string, SignatureTensor> classes;
    for (const auto& [output, ids] : results) {
      const size_t at = output.rfind('/') == std::string::npos ? 0 : output.rfind('/') + 1;
      if (output.substr(at) != kIds || ids.dtype != internal::kId) continue;
      const std::string head = name.substr(0, name.rfind('/') + 1) + output.substr(0, at);
      const auto classifier = model_.signatures.find(head + "classification");
      const std::string names = output.substr(0, at) + "classes";
      if (classifier == model_.signatures.end() || results.contains(names)) continue;
      const auto& words = classifier->second.classes;
      graph_.set_label(names);
      const std::string value = graph_.add_outside(
          names + "/GatherV2", "GatherV2",
          {graph_.texts({static_cast<int64_t>(words.size())}, words), ids.value, graph_.int32(0)},
          {{"Tparams", internal::type_value(internal::kText)},
           {"Tindices", internal::type_value(ids.dtype)},
           {"Taxis", internal::type_value(BundleDtype::kInt32)},
           {"batch_dims", internal::integer_value(0)}},
          {internal::kText});
      classes[names] = tensor_of(value, ids.shape);
    }
    results.merge(classes);
  }

  // string [rows, classes]
  std::string names_of_classes(const std::vector<std::string>& classes, const std::string& scores) {
    const auto count = static_cast<int64_t>(classes.size());
    graph_.set_label("classes");
    const internal::Nodes nodes(graph_);
    const std::string rows = nodes.element(nodes.sizes(scores), 0);
    return graph_.add_outside(
        "classes/Tile", "Tile",
        {graph_.texts({1, count}, classes), nodes.pack({rows, nodes.int64(1)})},
        {{"T", internal::type_value(internal::kText)},
         {"Tmultiples", internal::type_value(internal::kId)}},
        {internal::kText});
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
  internal::LookupTables tables_{graph_};
  internal::MetaGraph meta_;
  std::map<std::string, std::string> outputs_;
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
