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

// The model to write.
struct ServableSource {
  // Features by name.
  using Tensors = std::map<std::string, Tensor>;

  // Computes a batch: the signatures, kServingDefault among them. It is called several times, with
  // batches of several sizes, while LibTorch records the operations.
  std::function<std::map<std::string, ExportOutput>(const Tensors& features)> function{};
  // The features that `function` receives.
  ServingInputReceiver receiver{};
  // The very tensors that `function` computes with, by name ("net/dense/kernel").
  std::vector<std::pair<std::string, Tensor>> weights{};
  int64_t global_step = 0;
  std::string checkpoint{};  // where the weights are from; may be empty
};

// Writes into the folder `directory`, which exists:
//   model.pt           TorchScript. forward() takes the features in the order of their names, and
//                      returns a dict of tensors.
//   model.safetensors  the weights under their own names, as a checkpoint holds them
//   signatures.json    inputs and outputs, and digests of all three; written last
//
// The function is traced at two batch sizes, so that sizes that follow the batch size are
// distinguished from sizes that do not. The written model is then loaded and compared with the
// function at two other batch sizes. Throws InvalidArgument, naming output and batch size, if they
// differ; if an output does not depend on the features; and for a function that cannot be traced.
// Throws the errors of writing files.
void write_servable(FileSystem& files, const std::string& directory, const ServableSource& source);

}  // namespace muster::inline v0_1
