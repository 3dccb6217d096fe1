#include "muster/imports/onnx_import.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/missing_file.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/export/model_reader.h"
#include "muster/imports/internal/graph_run.h"
#include "muster/imports/internal/imported_graph.h"
#include "muster/tensor/libtorch.h"

// A program that links the part refers to this name, so that the linker takes this file out of the
// archive.
extern "C" {
extern const int muster_imports_linked;
const int muster_imports_linked = 1;
}

namespace muster::inline v0_1::onnx {
namespace {

using internal::GraphRun;
using internal::ImportedInfo;
using internal::ImportedModel;
using nlohmann::json;
using ModelPtr = std::shared_ptr<const ImportedModel>;

ModelPtr read_model(FileSystem& files, const std::string& path) {
  const auto file = open_named_file(files, path).value();
  // A message of Protobuf is shorter.
  if (file->size().value() >= uint64_t{1} << 31) {
    throw corrupt(path + " has 2 GB or more: that is no ONNX file",
                  "weights of such a size are external data");
  }
  return std::make_shared<const ImportedModel>(files.read_file(path).value(),
                                               internal::ModelPlace{&files, path});
}

// Throws InvalidArgument if the tensor is not what the file says.
void check_input(const ImportedModel& model, const ImportedInfo& info, const Tensor& given) {
  bool fits = given.scalar_type() == info.dtype;
  if (info.has_shape) fits = fits && given.dim() == static_cast<int64_t>(info.shape.size());
  for (size_t axis = 0; fits && axis < info.shape.size(); ++axis)
    fits = info.shape[axis] < 0 || given.size(static_cast<int64_t>(axis)) == info.shape[axis];
  if (fits) return;
  throw invalid_argument(fmt::format(
      "{}: the input \"{}\" is {}, it takes {}", model.place.path, printable(info.name),
      describe(given), TensorInfo{.dtype = info.dtype, .shape = info.shape}.describe()));
}

class OnnxLayer final : public LayerImpl {
 public:
  OnnxLayer(ModelPtr model, const LoadModelOptions& options)
      : LayerImpl("onnx_model", options.name), model_(std::move(model)) {
    for (const auto& weight : model_->weights)
      trains_.push_back(weight.trainable && (!options.trainable || options.trainable(weight.name)));
  }

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    if (inputs.tensors.size() != model_->inputs.size() || !inputs.state.empty()) {
      throw invalid_argument(fmt::format("{} takes {} inputs, {} are given", model_->place.path,
                                         model_->inputs.size(), inputs.tensors.size()));
    }
    for (size_t i = 0; i < model_->inputs.size(); ++i)
      check_input(*model_, model_->inputs[i], inputs.tensors[i]);
    std::vector<Tensor> weights(model_->weights.size());
    int slot = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const internal::ImportedWeight& weight = model_->weights[i];
      if (!weight.is_variable) continue;
      weights[i] = context.variable(identity(), slot++, [&] { return spec_of(i); });
    }
    return {.tensors = GraphRun(*model_, weights).run(inputs.tensors)};
  }

 private:
  VariableSpec spec_of(size_t index) const {
    const internal::ImportedWeight& weight = model_->weights[index];
    return {.name = weight.name,
            .shape = weight.value.sizes().vec(),
            .dtype = weight.value.scalar_type(),
            .initializer = [value = weight.value](const Shape&, DType,
                                                  RandomKey) { return value.clone(); },
            .trainable = trains_[index]};
  }

  const ModelPtr model_;
  std::vector<bool> trains_;  // for each weight
};

std::vector<std::pair<std::string, TensorInfo>> infos_of(const std::vector<ImportedInfo>& infos) {
  std::vector<std::pair<std::string, TensorInfo>> all;
  for (const ImportedInfo& info : infos)
    all.emplace_back(info.name, TensorInfo{.dtype = info.dtype, .shape = info.shape});
  return all;
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
  for (const ImportedInfo& info : model->inputs) {
    if (!info.has_shape || info.shape.empty()) {
      throw invalid_argument(fmt::format("not supported: {}: the input \"{}\" has no batch axis",
                                         path, printable(info.name)),
                             "load it with onnx::load_model(), which returns a layer");
    }
    signature.inputs[info.name] = {.dtype = info.dtype, .shape = info.shape};
  }
  for (const ImportedInfo& info : model->outputs) {
    signature.outputs[info.name] = {.dtype = info.dtype, .shape = info.shape};
    loaded.outputs[kServingDefault][info.name] = info.name;
  }
  add_signatures(*model, loaded);
  const auto step = model->metadata.find("muster.global_step");
  if (step != model->metadata.end()) loaded.global_step = parse_int(step->second).value_or(0);
  std::vector<Tensor> weights;
  for (const auto& weight : model->weights) weights.push_back(weight.value);
  loaded.run = [model, weights](const std::map<std::string, Tensor>& inputs) {
    std::vector<Tensor> given;
    for (const ImportedInfo& info : model->inputs) given.push_back(inputs.at(info.name));
    const std::vector<Tensor> outputs = GraphRun(*model, weights).run(given);
    std::map<std::string, Tensor> named;
    for (size_t i = 0; i < outputs.size(); ++i) named[model->outputs[i].name] = outputs[i];
    return named;
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
  OnnxModel loaded{.layer = Layer(std::make_shared<OnnxLayer>(model, options)),
                   .inputs = infos_of(model->inputs),
                   .outputs = infos_of(model->outputs)};
  for (const auto& weight : model->weights) {
    if (weight.is_variable) loaded.weights[weight.name] = weight.value;
  }
  return loaded;
}

}  // namespace muster::inline v0_1::onnx
