#include "muster/imports/onnx_import.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/missing_file.h"
#include "muster/base/strings.h"
#include "muster/export/model_reader.h"
#include "muster/imports/internal/imported_layer.h"
#include "muster/imports/internal/onnx_graph.h"

// A program that links the part refers to this name, so that the linker takes this file out of the
// archive.
extern "C" {
extern const int muster_imports_linked;
const int muster_imports_linked = 1;
}

namespace muster::inline v0_1::onnx {
namespace {

using internal::ImportedInfo;
using internal::ImportedModel;
using internal::ModelPtr;
using nlohmann::json;

ModelPtr read_model(FileSystem& files, const std::string& path) {
  const auto file = open_named_file(files, path).value();
  // A message of Protobuf is shorter.
  if (file->size().value() >= uint64_t{1} << 31) {
    throw corrupt(path + " has 2 GB or more: that is no ONNX file",
                  "weights of such a size are external data");
  }
  return std::make_shared<const ImportedModel>(
      internal::read_onnx_graph(files.read_file(path).value(), {&files, path}));
}

// What Muster wrote into the file about signatures, if it did.
void add_signatures(const ImportedModel& model, LoadedModel& loaded) {
  const auto found = model.metadata.find("muster.signatures");
  if (found == model.metadata.end()) return;
  const json all = json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object()) return;
  try {
    const Signature whole = loaded.signatures.at(kServingDefault);
    std::map<std::string, Signature> signatures;
    std::map<std::string, std::map<std::string, std::string>> outputs;
    for (const auto& [name, about] : all.items()) {
      Signature& signature = signatures[name];
      const std::string method = about.at("method");
      for (const auto each : {SignatureMethod::kClassify, SignatureMethod::kRegress}) {
        if (method == method_name(each)) signature.method = each;
      }
      signature.inputs = whole.inputs;
      for (const auto& [output, key] : about.at("outputs").items()) {
        outputs[name][output] = key.get<std::string>();
        signature.outputs[output] = whole.outputs.at(key.get<std::string>());
      }
      signature.classes = about.value("classes", std::vector<std::string>());
      for (const auto& [input, texts] : about.value("texts", json::object()).items())
        signature.texts[input] = {texts.at("words"), texts.at("unknown")};
      for (const std::string& input : about.value("may_be_missing", std::vector<std::string>())) {
        if (whole.inputs.contains(input)) signature.may_be_missing.insert(input);
      }
    }
    if (!signatures.contains(kServingDefault)) return;
    loaded.signatures = std::move(signatures);
    loaded.outputs = std::move(outputs);
  } catch (const std::exception&) {
    // Another program wrote something else under this name: the inputs and outputs say enough.
  }
}

LoadedModel load_for_serving(FileSystem& files, const std::string& path) {
  const ModelPtr model = read_model(files, path);
  LoadedModel loaded;
  Signature& signature = loaded.signatures[kServingDefault];
  internal::check_batch_axes(*model, "onnx::load_model()");
  for (const ImportedInfo& info : model->inputs)
    signature.inputs[info.name] = {.dtype = info.dtype, .shape = info.shape};
  for (const ImportedInfo& info : model->outputs) {
    signature.outputs[info.name] = {.dtype = info.dtype, .shape = info.shape};
    loaded.outputs[kServingDefault][info.name] = info.name;
  }
  add_signatures(*model, loaded);
  const auto step = model->metadata.find("muster.global_step");
  if (step != model->metadata.end()) loaded.global_step = parse_int(step->second).value_or(0);
  loaded.run = [call = internal::function_of(model)](const std::string& /*signature*/,
                                                     const std::map<std::string, Tensor>& inputs) {
    return call(inputs);
  };
  return loaded;
}

[[maybe_unused]] const bool reads_onnx = [] {
  register_model_reader({.suffix = ".onnx", .part = "onnx", .read = load_for_serving});
  return true;
}();

}  // namespace

OnnxModel load_model(FileSystem& files, const std::string& path, const LoadModelOptions& options) {
  const ModelPtr model = read_model(files, path);
  return {.layer = internal::layer_of(model, "onnx_model", options.name, options.trainable),
          .inputs = internal::infos_of(model->inputs),
          .outputs = internal::infos_of(model->outputs),
          .weights = internal::weights_of(*model)};
}

}  // namespace muster::inline v0_1::onnx
