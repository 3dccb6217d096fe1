// A checkpoint that several processes write: each its part, a file with tensors or rows of them,
// and after all of them one process the checkpoint's own file, which names the parts: that is the
// commit. A checkpoint whose own file is there is whole; parts that no such file names are what a
// save that was killed has left.
// Thread safety: free functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/formats/safetensors_parts.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// The name of a part: "model.ckpt-120.part-0-of-2.1f3a9c07.safetensors". `save` differs from that
// of every other save, so that a step that is saved again leaves the parts of the first save alone.
MUSTER_PART_EXPORT std::string checkpoint_part_name(int64_t step, size_t part, size_t parts,
                                                    uint32_t save);
// The step in such a name; -1 for any other name.
MUSTER_PART_EXPORT int64_t checkpoint_part_step(const std::string& name);

// Writes `tensors` to `path`: aside, synced, then committed. The file is of the safetensors format,
// so any reader of that opens it too. Returns what lies where in this one file. Throws what
// write_checkpoint() throws.
MUSTER_PART_EXPORT formats::SafetensorsParts write_checkpoint_part(
    FileSystem& fs, const std::string& path, const std::map<std::string, Tensor>& tensors);

// A tensor of a part: all of a tensor of the checkpoint, or some of its rows.
struct PartTensor {
  std::string name{};    // in the part
  std::string tensor{};  // in the checkpoint
  int64_t place = 0;     // among the tensors of parts that are rows of that tensor
};
// The table of the checkpoint whose parts have the tables `parts`, and contain the tensors `held`.
// Of parts with the same tensor and place the first one counts. `shapes` are those of the
// checkpoint's tensors. Throws std::out_of_range if a table lacks a tensor.
MUSTER_PART_EXPORT formats::SafetensorsParts join_parts(
    std::vector<formats::SafetensorsParts> parts, const std::vector<std::vector<PartTensor>>& held,
    const std::map<std::string, TensorSpec>& shapes);

// A file in a directory by which one process finds out which others see the same directory: the
// text that it has just written there.
inline constexpr const char* kSightFile = ".muster-sight";
// Whether this process finds `text` in that file. False for the directory "".
MUSTER_PART_EXPORT bool sees_directory(FileSystem& fs, const std::string& directory,
                                       const std::string& text);

}  // namespace muster::inline v0_1
