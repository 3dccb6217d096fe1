#include "muster/imports/internal/imported_layer.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/imports/internal/graph_run.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

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

class ImportedLayer final : public LayerImpl {
 public:
  ImportedLayer(ModelPtr model, const std::string& kind, const std::string& name,
                const std::function<bool(const std::string& weight)>& trainable)
      : LayerImpl(kind, name), model_(std::move(model)) {
    for (const auto& weight : model_->weights)
      trains_.push_back(weight.trainable && (!trainable || trainable(weight.name)));
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
      const ImportedWeight& weight = model_->weights[i];
      if (!weight.is_variable) continue;
      weights[i] = context.variable(identity(), slot++, [&] { return spec_of(i); });
    }
    return {.tensors = GraphRun(*model_, weights).run(inputs.tensors)};
  }

 private:
  VariableSpec spec_of(size_t index) const {
    const ImportedWeight& weight = model_->weights[index];
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

}  // namespace

Layer layer_of(const ModelPtr& model, const std::string& kind, const std::string& name,
               const std::function<bool(const std::string& weight)>& trainable) {
  return Layer(std::make_shared<ImportedLayer>(model, kind, name, trainable));
}

std::function<std::map<std::string, Tensor>(const std::map<std::string, Tensor>& inputs)>
function_of(const ModelPtr& model) {
  std::vector<Tensor> weights;
  for (const auto& weight : model->weights) weights.push_back(weight.value);
  return [model, weights](const std::map<std::string, Tensor>& inputs) {
    std::vector<Tensor> given;
    for (const ImportedInfo& info : model->inputs) given.push_back(inputs.at(info.name));
    const std::vector<Tensor> outputs = GraphRun(*model, weights).run(given);
    std::map<std::string, Tensor> named;
    for (size_t i = 0; i < outputs.size(); ++i) named[model->outputs[i].name] = outputs[i];
    return named;
  };
}

Infos infos_of(const std::vector<ImportedInfo>& infos) {
  Infos all;
  for (const ImportedInfo& info : infos)
    all.emplace_back(info.name, TensorInfo{.dtype = info.dtype, .shape = info.shape});
  return all;
}

std::map<std::string, Tensor> weights_of(const ImportedModel& model) {
  std::map<std::string, Tensor> weights;
  for (const auto& weight : model.weights) {
    if (weight.is_variable) weights[weight.name] = weight.value;
  }
  return weights;
}

void check_batch_axes(const ImportedModel& model, const std::string& loader) {
  for (const ImportedInfo& info : model.inputs) {
    if (info.has_shape && !info.shape.empty()) continue;
    throw invalid_argument(fmt::format("not supported: {}: the input \"{}\" has no batch axis",
                                       model.place.path, printable(info.name)),
                           "load it with " + loader + ", which returns a layer");
  }
}

}  // namespace muster::inline v0_1::onnx::internal
