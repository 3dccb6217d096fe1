// Checkpoints as safetensors files, in the form that checkpoint.h describes.
// Thread safety: free functions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/checkpoint_reader.h"

namespace muster::inline v0_1::internal {

// Returns the dtype of this name in files; nothing for one that LibTorch does not have.
std::optional<DType> dtype_of_safetensors(std::string_view name);

// The tensor as its bytes go to the file, and their format's name for its dtype. No copy when it is
// that already. Throws InvalidArgument when it cannot be stored under this name.
std::pair<Tensor, std::string_view> storable(const std::string& name, const Tensor& tensor);

// Implements write_checkpoint().
void write_safetensors_checkpoint(FileSystem& fs, const std::string& path,
                                  const Checkpoint& checkpoint);

// Throws NotFound if there is no such file, and the errors of open_checkpoint() for this format.
std::unique_ptr<CheckpointReader> open_safetensors_checkpoint(FileSystem& fs,
                                                              const std::string& path);

}  // namespace muster::inline v0_1::internal
