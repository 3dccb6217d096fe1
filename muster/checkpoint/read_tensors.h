// Reads the tensors of a safetensors file from any writer. Thread safety: a free function.
#pragma once

#include <map>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Returns all tensors of the file by name, on the CPU. For a checkpoint, digests are verified, and
// "global_step" is left out. Throws NotFound, Corrupt, and InvalidArgument for a dtype that
// LibTorch has not.
MUSTER_PART_EXPORT std::map<std::string, Tensor> read_tensors(FileSystem& files,
                                                              const std::string& path);

}  // namespace muster::inline v0_1
