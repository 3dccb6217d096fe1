// Recognises a checkpoint in TensorFlow's own format, which core does not read, to report it.
// Thread safety: pure except for the folder it looks at.
#pragma once

#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1::formats {

// Returns the prefix of the TensorFlow checkpoint that a file of this name belongs to:
// "model.ckpt-9" of "model.ckpt-9.index" and of "model.ckpt-9.data-00000-of-00001".
std::optional<std::string> tensorflow_checkpoint_of(const std::string& file);

// Returns InvalidArgument, with what to do instead, if "<prefix>.index" exists.
std::optional<Error> tensorflow_checkpoint_error(FileSystem& files, const std::string& prefix);

}  // namespace muster::inline v0_1::formats
