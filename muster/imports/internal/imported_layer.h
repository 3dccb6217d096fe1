// A model of another library as a layer, and as a function of named tensors. For sources alone.
// Thread safety: free functions; what they return may be called by any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/export/signature.h"
#include "muster/imports/internal/imported_graph.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1::onnx::internal {

using ModelPtr = std::shared_ptr<const ImportedModel>;
using Infos = std::vector<std::pair<std::string, TensorInfo>>;

// The layer takes the inputs and returns the outputs, in the order of the model. Its variables are
// the weights "<name>/<name of the weight>". `kind` is its name with a count if `name` is empty.
// `trainable`: whether a weight trains; unset: all do that can.
Layer layer_of(const ModelPtr& model, const std::string& kind, const std::string& name,
               const std::function<bool(const std::string& weight)>& trainable);

// Computes all outputs with the weights of the file.
std::function<std::map<std::string, Tensor>(const std::map<std::string, Tensor>& inputs)>
function_of(const ModelPtr& model);

Infos infos_of(const std::vector<ImportedInfo>& infos);
std::map<std::string, Tensor> weights_of(const ImportedModel& model);

// Throws InvalidArgument for an input without axes, which no server can take; `loader` is what
// makes a layer of such a model.
void check_batch_axes(const ImportedModel& model, const std::string& loader);

}  // namespace muster::inline v0_1::onnx::internal
