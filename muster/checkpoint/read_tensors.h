// Reads the tensors of any safetensors file.
// Thread safety: a free function.
#pragma once

#include <map>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Gives all tensors of the file by name, on the CPU. Of a checkpoint, digests are verified, and
// "global_step" is left out. Throws NotFound, Corrupt, and InvalidArgument for a dtype that
// LibTorch has not.
MUSTER_PART_EXPORT std::map<std::string, Tensor> read_tensors(FileSystem& files,
                                                              const std::string& path);

}  // namespace muster::inline v0_1
