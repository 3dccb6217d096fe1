// Runs SavedModels of TensorFlow in Muster, without TensorFlow: as a layer that trains on, and
// wherever an export is loaded. A program that links muster::onnx may give the folder of a
// SavedModel to Servable and Predictor. Thread safety: free functions; any thread.
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

namespace muster::inline v0_1::saved_model {

// How load_model() reads a folder.
struct LoadModelOptions {
  // The layer's name, the first part of the names of its variables; empty: "saved_model", counted.
  std::string name{};
  // The signature that the layer computes.
  std::string signature = kServingDefault;
  // Whether a variable trains, by its name in the SavedModel; unset: all do that the file says do.
  // It is not asked for the statistics of a batch normalization, which never train.
  std::function<bool(const std::string& variable)> trainable{};
};

// A model of a folder.
struct SavedModel {
  // Takes the inputs of the signature and returns its outputs, both in the order of their names.
  // Its variables are those that the signature uses: "<name>/<name in the SavedModel>", with the
  // values of the folder as initial values. Constants, integers and single numbers stay as they
  // are.
  Layer layer;
  // Names, dtypes and shapes; -1: any size. If the signature takes serialized tf.Examples, the
  // inputs are the features of fixed shape in them. Outputs that are texts are left out.
  std::vector<std::pair<std::string, TensorInfo>> inputs{}, outputs{};
  // The variables by their names in the SavedModel, for a warm start of another model.
  std::map<std::string, Tensor> weights{};
};

// Reads the file saved_model.pb of the folder, and its variables. SavedModels of Keras,
// tf.saved_model.save() and tf.estimator of TensorFlow 2 are read, and those of Muster. Throws
// NotFound for a missing file; Corrupt, with the node or the variable, for files that are no valid
// model; and InvalidArgument ("not supported: ...") with the node for what Muster does not run:
// texts, tables, ragged and sparse inputs, and control flow of version 1 among others. A call
// throws InvalidArgument with the node for inputs that the model does not take.
MUSTER_EXPORT SavedModel load_model(FileSystem& files, const std::string& folder,
                                    const LoadModelOptions& options = {});

}  // namespace muster::inline v0_1::saved_model
