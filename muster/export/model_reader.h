// Readers of models that Muster did not export as TorchScript: a part of Muster that reads such
// files registers one, and Servable uses it. Thread safety: all calls from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/export/signature.h"

namespace muster::inline v0_1 {

// A model in memory.
struct LoadedModel {
  std::map<std::string, Signature> signatures{};  // kServingDefault among them
  // For each signature, the name of each output among the results of `run`.
  std::map<std::string, std::map<std::string, std::string>> outputs{};
  // Computes the results of a batch for a signature; any thread may call it.
  std::function<std::map<std::string, Tensor>(const std::string& signature,
                                              const std::map<std::string, Tensor>& inputs)>
      run{};
  int64_t global_step = 0;
};

struct ModelReader {
  std::string suffix{};  // ".onnx": of the files that it reads
  std::string part{};    // "onnx": the part of Muster that has it
  std::function<LoadedModel(FileSystem& files, const std::string& path)> read{};
};

// Registers a reader, in place of one for the same suffix.
MUSTER_PART_EXPORT void register_model_reader(ModelReader reader);

// Returns the file that a registered kind of model has at `path`: `path` itself, or model.onnx or
// saved_model.pb in the folder `path` without an export of Muster; empty if there is none.
std::string foreign_model(FileSystem& files, const std::string& path);
// Reads it. Throws InvalidArgument, with the part to link, if no part that this program links reads
// such files.
LoadedModel read_foreign_model(FileSystem& files, const std::string& path);

}  // namespace muster::inline v0_1
