// Shows a model: ONNX, TorchScript, a SavedModel, or weights alone. Thread safety: free functions.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::app {

// What a file of a model contains.
struct ModelFile {
  std::string kind{};  // "ONNX, opset 17", "TorchScript", "SavedModel, serve", "safetensors"
  // Names with dtypes and shapes: "float32[batch, 4]". Empty for weights alone. Of a SavedModel
  // they are "serving_default: x".
  std::vector<std::pair<std::string, std::string>> inputs{}, outputs{};
  std::map<std::string, int64_t> operations{};  // how often each occurs
  int64_t weights = 0;                          // tensors
  int64_t numbers = 0;                          // in all of them
  uint64_t weight_bytes = 0;
  uint64_t file_bytes = 0;
  std::vector<std::pair<std::string, std::string>> notes{};  // metadata
  std::string use{};                                         // what Muster does with such a file
};

// Reads the file, or the folder of a SavedModel; its name decides the kind. Throws NotFound,
// Corrupt for bytes that are not such a file, and InvalidArgument ("not supported: ...") for
// another kind.
ModelFile read_model_file(FileSystem& files, const std::string& path);

// The same of the bytes of an ONNX file; `path` names them in errors.
ModelFile onnx_model_of(const std::string& bytes, const std::string& path);

// For people, and for programs.
std::string text_of(const ModelFile& model, const std::string& path);
std::string json_of(const ModelFile& model, const std::string& path);

}  // namespace muster::app
