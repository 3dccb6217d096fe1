// A checkpoint that several processes write. Each writes its part, a file with tensors or rows of
// them. After all parts, one process writes the checkpoint's own file, which names the parts: that
// is the commit. A checkpoint whose own file exists is whole; parts that no such file names are
// left over from a killed save. Thread safety: free functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
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
// so any reader of that opens it too. Returns the places of the tensors in this one file. Throws
// the errors of write_checkpoint().
MUSTER_PART_EXPORT formats::SafetensorsParts write_checkpoint_part(
    FileSystem& fs, const std::string& path, const std::map<std::string, Tensor>& tensors);

}  // namespace muster::inline v0_1
