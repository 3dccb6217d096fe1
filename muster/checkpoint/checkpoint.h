// The content of one checkpoint and its file: one .safetensors file that any reader of safetensors
// opens, or several such files, the parts, and one file that names them. Thread safety: values and
// free functions; do not write to a tensor while it is being saved.
//
// In the file's `__metadata__`, the key `muster` holds one JSON object as text: format_version,
// global_step, epoch, inputs, notes, and digests ("crc32c:xxxxxxxx" of each tensor's bytes).
// `muster_digest` is the digest of that text, a line end, and one line "<name> <dtype> [2, 3]" per
// tensor, sorted by name: so every bit that matters is covered. It is defined the same way in every
// version of the format, so damage is never mistaken for a newer version. For a checkpoint with
// parts, `muster_parts` says which tensor is in which file (muster/formats/safetensors_parts.h),
// and `parts` in the JSON object is its digest.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/formats/safetensors_parts.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// What one checkpoint file holds.
struct Checkpoint {
  // Variables and optimizer slots by name. Saving takes dense tensors of any device and strides;
  // tensors that are not contiguous on the CPU are copied during the save. Loading gives contiguous
  // CPU tensors that require no gradient. "global_step" is reserved: the file holds it as an int64
  // scalar, made from the field below.
  std::map<std::string, Tensor> tensors{};
  int64_t global_step = 0;
  int64_t epoch = 0;
  // JSON text: the position of every input pipeline. Loading returns it without blanks, keys
  // sorted.
  std::string inputs = "{}";
  // Texts of the program that writes the checkpoint (model digest, strategy, program).
  std::map<std::string, std::string> notes{};
  // Tensors in separate files next to the checkpoint's file, its parts, which other processes wrote
  // (muster/checkpoint/checkpoint_parts.h). Saving names them in the checkpoint's file; loading
  // returns their tensors in `tensors` and leaves this empty.
  formats::SafetensorsParts parts = {};
};

// The shape and dtype that a model needs of one variable or slot.
struct MUSTER_EXPORT TensorSpec {
  Shape shape{};
  DType dtype = kFloat32;
  bool operator==(const TensorSpec&) const = default;
  // "float32[3, 3, 1, 32]"
  std::string describe() const;
};

// The differences between the variables a model needs and those a checkpoint holds. Every list is
// sorted by name.
struct MUSTER_EXPORT Compatibility {
  // One variable on which model and checkpoint disagree.
  struct Difference {
    std::string name{};
    TensorSpec needed{};
    TensorSpec found{};
  };
  std::string checkpoint{};               // the name of the checkpoint, for messages
  std::vector<Difference> missing{};      // not in the checkpoint; `found` is empty
  std::vector<Difference> extra{};        // not in the model; `needed` is empty
  std::vector<Difference> reshaped{};     // different shape
  std::vector<Difference> other_dtype{};  // same shape, different dtype

  bool ok() const {
    return missing.empty() && extra.empty() && reshaped.empty() && other_dtype.empty();
  }
  // One line per difference; empty when ok().
  std::string describe() const;
  // Throws one InvalidArgument that names the checkpoint and every difference, unless ok().
  void throw_if_incompatible() const;
};

// `checkpoint_name` is the name of the checkpoint in messages.
MUSTER_EXPORT Compatibility compare(const std::map<std::string, TensorSpec>& needed,
                                    const Checkpoint& checkpoint, std::string checkpoint_name);
MUSTER_EXPORT Compatibility compare(const std::map<std::string, TensorSpec>& needed,
                                    const std::map<std::string, TensorSpec>& found,
                                    std::string checkpoint_name);

// Returns the step: "model.ckpt-120" -> 120, also with a directory before it or ".safetensors"
// after it; -1 for a name that is not a checkpoint's.
MUSTER_EXPORT int64_t checkpoint_step(const std::string& prefix_or_path);
// Returns the file of a prefix; a path that ends in ".safetensors" stays as it is.
MUSTER_EXPORT std::string checkpoint_file(const std::string& prefix_or_path);

// Writes `checkpoint` to `path`: to a temporary file, synced, then renamed over `path`. If it
// fails, it leaves no file behind, `path` is unchanged, and the error names the file:
// InvalidArgument when the disk is full, when a tensor cannot be stored (sparse, complex,
// undefined, a reserved name), or when `inputs` is not JSON.
MUSTER_EXPORT void write_checkpoint(FileSystem& fs, const std::string& path,
                                    const Checkpoint& checkpoint);

// Reads and verifies the checkpoint at a prefix or path. Throws NotFound when there is none;
// Corrupt with the file, the tensor, and both digests when bytes fail their check; InvalidArgument
// for a sharded checkpoint or a newer format.
MUSTER_EXPORT Checkpoint read_checkpoint(FileSystem& fs, const std::string& prefix_or_path);

}  // namespace muster::inline v0_1
