// Runs ONNX models in Muster: as a layer that trains on, and wherever an export is loaded. A
// program that links muster::onnx may give the path of an .onnx file to Servable and Predictor.
// Thread safety: free functions; any thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/export/signature.h"
#include "muster/layers/layer.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::onnx {

// How load_model() reads a file.
struct LoadModelOptions {
  // The layer's name, the first part of the names of its variables; empty: "onnx_model", counted.
  std::string name{};
  // Whether a weight trains, by its name in the file; unset: all do that can. It is not asked for
  // the statistics of a batch normalization, which never train.
  std::function<bool(const std::string& weight)> trainable{};
};

// A model of a file.
struct OnnxModel {
  // Takes the inputs and returns the outputs, in the order of the file. Its variables are the
  // weights: "<name>/<name in the file>", with the values of the file as initial values. A weight
  // is a tensor of floating-point numbers with an axis or more; constants of nodes, integers, and
  // arguments such as the scales of Resize stay as they are.
  Layer layer;
  // Names, dtypes and shapes; -1: any size.
  std::vector<std::pair<std::string, TensorInfo>> inputs{}, outputs{};
  // The weights of the file by their names, for a warm start of another model.
  std::map<std::string, Tensor> weights{};
};

// Reads an ONNX model of opset 13 or newer, with external data next to it. Batch normalization uses
// the statistics of the file in training too, and Dropout drops nothing. Throws NotFound for a
// missing file; Corrupt, with the tensor or the node, for bytes that are no valid model; and
// InvalidArgument ("not supported: ...") with the node for an operation, a dtype or an attribute
// that Muster does not run, and for external data outside of the model's folder. A call throws
// InvalidArgument with the node for inputs that the model does not take.
MUSTER_EXPORT OnnxModel load_model(FileSystem& files, const std::string& path,
                                   const LoadModelOptions& options = {});

}  // namespace muster::inline v0_1::onnx
