// Writes a function of tensors as a model that Servable, LibTorch and PyTorch load.
// Thread safety: a free function; it calls the function on the calling thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/export/export_output.h"
#include "muster/export/serving_input_receiver.h"

namespace muster::inline v0_1 {

// What is written.
struct ServableSource {
  // Features by name.
  using Tensors = std::map<std::string, Tensor>;

  // Computes a batch: the signatures, kServingDefault among them. It is called several times, with
  // batches of several sizes, while LibTorch notes what is computed.
  std::function<std::map<std::string, ExportOutput>(const Tensors& features)> function{};
  // Describes the features of `function`.
  ServingInputReceiver receiver{};
  // The very tensors that `function` computes with, by name ("net/dense/kernel").
  std::vector<std::pair<std::string, Tensor>> weights{};
  int64_t global_step = 0;
  std::string checkpoint{};  // where the weights are from; may be empty
  // Formats in addition to TorchScript: "onnx", "saved_model". See muster/export/model_format.h.
  std::vector<std::string> formats{};
};

// Writes into the folder `directory`, which exists:
//   model.pt           TorchScript. forward() takes the features in the order of their names, and
//                      gives a dict of tensors.
//   model.safetensors  the weights under their own names, as a checkpoint holds them
//   signatures.json    what goes in and comes out, and digests of all three; written last
// The function is traced at two batch sizes, and at three lengths of each axis whose size is -1, to
// find the numbers that follow these sizes. What was traced is then compared with the function at
// two other batch sizes, and with 1, 3 and 8 rows at other lengths. Throws InvalidArgument, naming
// the output and the sizes, where they differ; naming the feature and the axis, for a model
// function that holds for one length alone; where an output does not depend on the features; and
// for what cannot be traced. Throws what writing files throws.
void write_servable(FileSystem& files, const std::string& directory, const ServableSource& source);

}  // namespace muster::inline v0_1
