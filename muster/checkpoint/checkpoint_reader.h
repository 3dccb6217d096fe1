// A checkpoint that is read piece by piece, whatever the format of its file.
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

// The name under which files hold Checkpoint::global_step.
inline const std::string kGlobalStep = "global_step";

// An open checkpoint; one implementation for each format.
class CheckpointReader {
 public:
  virtual ~CheckpointReader() = default;

  // The checkpoint without its tensors; `parts` are those of its file.
  virtual const Checkpoint& header() const = 0;
  // Of all tensors, "global_step" among them, in the order in which they lie in the file.
  virtual std::vector<std::string> names() const = 0;
  // Reads and verifies one tensor. Throws NotFound when there is none of that name, Corrupt when it
  // is damaged.
  virtual Tensor read(const std::string& name) const = 0;
  // What the checkpoint holds, "global_step" among it.
  virtual std::map<std::string, TensorSpec> specs() const = 0;
  // Reads and verifies the rows `begin` to `end` along axis 0 of one tensor, and holds little more
  // than these. Throws what read() throws, and InvalidArgument for rows that are not there.
  virtual Tensor read_rows(const std::string& name, int64_t begin, int64_t end) const = 0;
  // Reads and verifies all tensors, and holds a little of them at a time; where several share the
  // work, what falls to number `share` of `shares`. Throws Corrupt.
  virtual void verify(size_t share = 0, size_t shares = 1) const = 0;
};

// Opens the checkpoint at a prefix or path by the reader of its format, with its header verified.
// Throws NotFound when there is none, Corrupt for a damaged header, InvalidArgument for a format
// that has no reader.
MUSTER_PART_EXPORT std::unique_ptr<CheckpointReader> open_checkpoint(
    FileSystem& fs, const std::string& prefix_or_path);

}  // namespace muster::inline v0_1
