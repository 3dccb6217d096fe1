// Formats of exported models in addition to TorchScript: a part of Muster that writes one registers
// it, and exports that name it find it then. Thread safety: all calls from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/data/example.h"
#include "muster/export/signature.h"

namespace muster::inline v0_1 {

class RequestColumns;

// The content of an export, for those who convert it.
struct ExportedModel {
  std::string module{};                  // TorchScript: the bytes of model.pt
  std::vector<std::string> arguments{};  // the inputs, in the order in which forward() takes them
  std::map<std::string, Signature> signatures{};
  // For each signature, the key of each output in the dict that forward() returns.
  std::map<std::string, std::map<std::string, std::string>> outputs{};
  int64_t global_step = 0;
  // How serialized tf.Examples become inputs of the module, except those that `columns` make: as
  // FixedLenFeatures of numbers. Unset: the export takes none.
  std::optional<data::FeatureSpec> parsing{};
  // Feature columns that make inputs of the module from what clients give; null: none.
  std::shared_ptr<const RequestColumns> columns{};
};

// Reads the folder of a version. Throws NotFound if it holds no export, Corrupt for a file that has
// changed since it was written, and InvalidArgument if a newer Muster wrote it.
MUSTER_PART_EXPORT ExportedModel read_export(FileSystem& files, const std::string& folder);

struct ModelFormat {
  std::string name{};  // "onnx": ExportModelOptions::formats
  std::string file{};  // its file in the folder of an export: "model.onnx"
  // Writes the model as the file `path`; returns the names of all files that it wrote in the folder
  // of this file: "model.onnx", "variables/variables.index".
  std::function<std::vector<std::string>(FileSystem& files, const ExportedModel& model,
                                         const std::string& path)>
      write = {};
};

// Registers a format, in place of one with the same name.
MUSTER_PART_EXPORT void register_model_format(ModelFormat format);

// Throws InvalidArgument for a name that no linked part has registered, with the part to link.
MUSTER_PART_EXPORT ModelFormat model_format(const std::string& name);

}  // namespace muster::inline v0_1
