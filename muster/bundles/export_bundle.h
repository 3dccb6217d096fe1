// A checkpoint of Muster as one of TensorFlow. Thread safety: a free function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1::tensorflow {

// A tensor that was exported.
struct BundleExported {
  std::string name{};             // in Muster's checkpoint; "" where it is copied from `like`
  std::string tensorflow_name{};  // in TensorFlow's
  std::vector<int64_t> shape{};
};

// Options of export_bundle().
struct ExportBundleOptions {
  // The prefix of a checkpoint that TensorFlow wrote of the same model. The export has the names
  // and keys of that one, so that TensorFlow goes on from it; what Muster does not keep (learning
  // rates, an object graph) is copied from it, and the powers of Adam's betas are computed for the
  // step. "": names are those of TensorFlow 1 ("dense/kernel/Adam_1").
  std::string like = {};
};

// Writes the checkpoint in `file`, a .safetensors file, to "<prefix>.index" and
// "<prefix>.data-00000-of-00001", and names it in the file `checkpoint` of the folder, which is
// made when there is none. Returns what was written, in the order of TensorFlow's names. Throws
// NotFound and Corrupt for a file that is missing or damaged, and InvalidArgument where both lie in
// one folder, for a dtype that TensorFlow has not, and where `like` has a variable that is not in
// `file`, or is there in another shape or dtype: the error lists all.
MUSTER_EXPORT std::vector<BundleExported> export_bundle(FileSystem& files, const std::string& file,
                                                        const std::string& prefix,
                                                        const ExportBundleOptions& options = {});

}  // namespace muster::inline v0_1::tensorflow
