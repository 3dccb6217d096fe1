// Reads a checkpoint piece by piece, whatever the format of its file.
// Thread safety: a reader may be shared.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint.h"

namespace muster::inline v0_1 {

// The name of Checkpoint::global_step in files.
inline const std::string kGlobalStep = "global_step";

// An open checkpoint; one implementation for each format.
class CheckpointReader {
 public:
  virtual ~CheckpointReader() = default;

  // The checkpoint without its tensors; `parts` are those of its file.
  virtual const Checkpoint& header() const = 0;
  // The names of all tensors, including "global_step", in the order of the file.
  virtual std::vector<std::string> names() const = 0;
  // Reads and verifies one tensor. Throws NotFound for an unknown name, Corrupt for a damaged
  // tensor.
  virtual Tensor read(const std::string& name) const = 0;
  // Returns the shape and dtype of every tensor, including "global_step".
  virtual std::map<std::string, TensorSpec> specs() const = 0;
  // Reads and verifies the rows `begin` to `end` along axis 0 of one tensor, and holds little more
  // than these rows in memory. Throws the errors of read(), and InvalidArgument for rows out of
  // range.
  virtual Tensor read_rows(const std::string& name, int64_t begin, int64_t end) const = 0;
  // Reads and verifies all tensors, and holds a few of them in memory at a time. If several callers
  // divide the work, verifies part number `share` of `shares`. Throws Corrupt.
  virtual void verify(size_t share = 0, size_t shares = 1) const = 0;
};

// Opens the checkpoint at a prefix or path with the reader of its format, and verifies its header.
// Throws NotFound when there is none, Corrupt for a damaged header, InvalidArgument for a format
// without a reader.
MUSTER_PART_EXPORT std::unique_ptr<CheckpointReader> open_checkpoint(
    FileSystem& fs, const std::string& prefix_or_path);

}  // namespace muster::inline v0_1
