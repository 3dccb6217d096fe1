#include "muster/imports/saved_model_import.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/missing_file.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/bundles/saved_model_file.h"
#include "muster/export/model_reader.h"
#include "muster/imports/internal/imported_layer.h"
#include "muster/imports/internal/tensorflow_graph.h"

namespace muster::inline v0_1::saved_model {
namespace {

using imports::SignatureModel;
using imports::TensorflowVariables;
using onnx::internal::ImportedModel;
using onnx::internal::ModelPtr;
using tensorflow::SavedModelFile;
using tensorflow::SavedSignature;

constexpr const char* kModelFile = "saved_model.pb";
// The signature of an operation without results, which Keras writes.
constexpr const char* kInitOperation = "__saved_model_init_op";

// A SavedModel, opened.
class OpenModel {
 public:
  OpenModel(FileSystem& files, const std::string& path)
      : files_(files),
        path_(path),
        file_(read_file(files, path)),
        variables_(files, std::string(directory_of(path)), *file_) {}

  const SavedModelFile& file() const { return *file_; }
  SignatureModel read(const SavedSignature& signature) {
    return imports::read_signature(*file_, signature, variables_, {&files_, path_});
  }
  int64_t global_step() const { return variables_.global_step(); }

 private:
  static std::unique_ptr<const SavedModelFile> read_file(FileSystem& files,
                                                         const std::string& path) {
    const auto file = open_named_file(files, path).value();
    // A message of Protobuf is shorter.
    if (file->size().value() >= uint64_t{1} << 31)
      throw corrupt(path + " has 2 GB or more: that is no SavedModel");
    try {
      return std::make_unique<const SavedModelFile>(files.read_file(path).value());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;
      throw corrupt(
          fmt::format("{} is not a SavedModel, or it is cut off: {}", path, error.message()),
          "copy the file again, or export the model again");
    }
  }

  FileSystem& files_;
  const std::string path_;
  const std::unique_ptr<const SavedModelFile> file_;
  TensorflowVariables variables_;
};

Signature signature_of(const SavedSignature& saved, const SignatureModel& read) {
  Signature signature;
  for (const auto& info : read.model.inputs)
    signature.inputs[info.name] = {.dtype = info.dtype, .shape = info.shape};
  for (const auto& info : read.model.outputs)
    signature.outputs[info.name] = {.dtype = info.dtype, .shape = info.shape};
  if (saved.method.ends_with("/regress") && signature.outputs.contains("outputs"))
    signature.method = SignatureMethod::kRegress;
  const auto scores = signature.outputs.find("scores");
  if (!saved.method.ends_with("/classify") || scores == signature.outputs.end()) return signature;
  // Names that are no constants are the numbers of the classes.
  const Shape& shape = scores->second.shape;
  const int64_t count = shape.size() == 2 ? shape[1] : -1;
  std::vector<std::string> classes = read.classes;
  constexpr int64_t kMostClasses = 1 << 20;
  if (classes.empty() && count <= kMostClasses) {
    for (int64_t i = 0; i < count; ++i) classes.push_back(std::to_string(i));
  }
  if (classes.empty() || (count >= 0 && static_cast<int64_t>(classes.size()) != count))
    return signature;
  signature.method = SignatureMethod::kClassify;
  signature.classes = std::move(classes);
  signature.outputs = {*scores};
  return signature;
}

// SavedModels of Muster that take tf.Examples or texts have the tensors of the model under another
// name: "tensors:predict" for "predict".
constexpr const char* kOfTensors = "tensors:";

// The signature with this name, or that of the same outputs that takes tensors.
SavedSignature tensor_signature(const std::map<std::string, SavedSignature>& signatures,
                                const std::string& name) {
  SavedSignature signature = signatures.at(name);
  const auto of_tensors = signatures.find(kOfTensors + name);
  if (of_tensors == signatures.end()) return signature;
  const std::string method = signature.method;
  signature = of_tensors->second;
  signature.method = method;
  return signature;
}

LoadedModel load_for_serving(FileSystem& files, const std::string& path) {
  OpenModel open(files, path);
  LoadedModel loaded{.global_step = open.global_step()};
  std::map<std::string, std::function<std::map<std::string, Tensor>(
                            const std::map<std::string, Tensor>& inputs)>>
      functions;
  std::optional<Error> first;
  const auto add = [&](const std::string& name, const SavedSignature& saved) {
    SignatureModel read = open.read(saved);
    onnx::internal::check_batch_axes(read.model, "saved_model::load_model()");
    loaded.signatures[name] = signature_of(saved, read);
    for (const auto& [output, info] : loaded.signatures[name].outputs)
      loaded.outputs[name][output] = output;
    functions[name] =
        onnx::internal::function_of(std::make_shared<const ImportedModel>(std::move(read.model)));
  };
  for (const auto& [name, saved] : open.file().signatures()) {
    if (name == kInitOperation || name.starts_with(kOfTensors)) continue;
    try {
      add(name, tensor_signature(open.file().signatures(), name));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalidArgument || name == kServingDefault) throw;
      log::info(fmt::format("the signature \"{}\" of {} is left out: {}", printable(name), path,
                            error.message()));
      if (!first) first = error;
    }
  }
  if (loaded.signatures.empty()) {
    if (first) throw *first;
    throw invalid_argument(path + " has no signature",
                           "export it with signatures: tf.saved_model.save(model, folder, "
                           "signatures=model.function)");
  }
  // An Estimator's export without a head's default has the other signatures alone.
  if (!loaded.signatures.contains(kServingDefault)) {
    const std::string name =
        loaded.signatures.contains("predict") ? "predict" : loaded.signatures.begin()->first;
    loaded.signatures[kServingDefault] = loaded.signatures.at(name);
    loaded.outputs[kServingDefault] = loaded.outputs.at(name);
    functions[kServingDefault] = functions.at(name);
  }
  loaded.run = [functions](const std::string& signature,
                           const std::map<std::string, Tensor>& inputs) {
    return functions.at(signature)(inputs);
  };
  return loaded;
}

[[maybe_unused]] const bool reads_saved_models = [] {
  register_model_reader({.suffix = kModelFile, .part = "onnx", .read = load_for_serving});
  return true;
}();

}  // namespace

SavedModel load_model(FileSystem& files, const std::string& folder,
                      const LoadModelOptions& options) {
  OpenModel open(files, join_path(folder, kModelFile));
  const auto& signatures = open.file().signatures();
  const auto found = signatures.find(options.signature);
  if (found == signatures.end()) {
    std::vector<std::string> names;
    for (const auto& [name, signature] : signatures) names.push_back(name);
    throw unknown_name(folder, "signature", options.signature, names);
  }
  const auto model = std::make_shared<const ImportedModel>(
      std::move(open.read(tensor_signature(signatures, found->first)).model));
  return {.layer = onnx::internal::layer_of(model, "saved_model", options.name, options.trainable),
          .inputs = onnx::internal::infos_of(model->inputs),
          .outputs = onnx::internal::infos_of(model->outputs),
          .weights = onnx::internal::weights_of(*model)};
}

}  // namespace muster::inline v0_1::saved_model
