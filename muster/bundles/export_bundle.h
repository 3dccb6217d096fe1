// Exports a checkpoint of Muster as a checkpoint of TensorFlow. Thread safety: a free function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1::tensorflow {

// One exported tensor.
struct BundleExported {
  std::string name{};             // name in Muster's checkpoint; "" if copied from `like`
  std::string tensorflow_name{};  // name in TensorFlow's checkpoint
  std::vector<int64_t> shape{};
};

// Options of export_bundle().
struct ExportBundleOptions {
  // The prefix of a checkpoint of the same model that TensorFlow wrote. The export takes its
  // variable names and keys, so that TensorFlow can continue from it. Values that Muster does not
  // keep (learning rates, an object graph) are copied from it, and the powers of Adam's betas are
  // computed for the step. "": the names of TensorFlow 1 ("dense/kernel/Adam_1").
  std::string like = {};
};

// Writes the checkpoint in `file`, a .safetensors file, to "<prefix>.index" and
// "<prefix>.data-00000-of-00001". Also names it in the file `checkpoint` of that folder, and makes
// the folder if needed. Returns the written tensors in the order of TensorFlow's names. Throws
// NotFound for a missing file, Corrupt for a damaged one, and InvalidArgument when `file` and
// `prefix` are in the same folder, when TensorFlow has no such dtype, or when a variable of `like`
// is missing in `file` or has another shape or dtype there; the error lists all of these.
MUSTER_EXPORT std::vector<BundleExported> export_bundle(FileSystem& files, const std::string& file,
                                                        const std::string& prefix,
                                                        const ExportBundleOptions& options = {});

}  // namespace muster::inline v0_1::tensorflow
