// Writes an exported model as an ONNX file, which onnxruntime and many accelerators run. A program
// that links muster::onnx may also export with the format "onnx": ExportModelOptions::formats.
// Thread safety: free functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/export/model_format.h"

namespace muster::inline v0_1::onnx {

// How write_onnx() writes a file.
struct OnnxOptions {
  // Bytes of weights from which they are in a second file, "<file>.data", next to the model: a
  // protobuf message has less than 2^31 bytes.
  uint64_t external_data_from = 2'000'000'000;
  // How the weights of float32 are stored:
  //   "float32"
  //   "float16", "bfloat16"  half the bytes; a Cast makes float32 of them.
  //   "int8"                 kernels of products (Dense, recurrent layers, attention) and
  //                          convolutions as int8 with a scale for each output; DequantizeLinear
  //                          makes float32 of them. Other weights stay float32.
  //   "int8_dynamic"         the same, and products and convolutions multiply integers of 8 bits:
  //                          DynamicQuantizeLinear rounds their inputs while the model runs.
  // The names are those of onnxruntime's and PyTorch's tools. Other names are an InvalidArgument.
  std::string weights = "float32";
};

// Writes `model` as the file `path`, in ONNX's opset 17, and returns the names of the files in its
// folder: the model, and maybe its weights. Inputs and outputs have the names of the signatures; a
// size of -1 is a named axis: "batch" for axis 0. Feature columns and lists of words stay in front
// of the model: the file takes what forward() of the TorchScript module takes, and its metadata
// "muster.signatures" (JSON) describes the signatures, classes and words.
// Before the file gets its name, ONNX's checker looks at it, and ONNX's shape inference computes
// all shapes and dtypes, which must agree with the signatures. Throws InvalidArgument ("not
// supported:
// ...") with the operation and the nearest weight for an operation that has no counterpart, and the
// errors of writing files.
MUSTER_EXPORT std::vector<std::string> write_onnx(FileSystem& files, const ExportedModel& model,
                                                  const std::string& path,
                                                  const OnnxOptions& options = {});

// The same for the folder of a version that export_model() made. Throws also what read_export()
// throws.
MUSTER_EXPORT std::vector<std::string> export_onnx(FileSystem& files, const std::string& folder,
                                                   const std::string& path,
                                                   const OnnxOptions& options = {});

}  // namespace muster::inline v0_1::onnx
