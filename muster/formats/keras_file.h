// Knows a file that Keras wrote, which core does not read, to say so. Thread safety: pure except
// that it looks whether the file is there.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1::formats {

// What the names of such files end with.
inline constexpr std::string_view kKerasEndings[] = {".h5", ".hdf5", ".keras"};

// Whether the name of a file ends with one of them.
bool is_keras_file(const std::string& path);

// Returns InvalidArgument, with what to do instead, when such a file is at `path`.
std::optional<Error> keras_file_error(FileSystem& files, const std::string& path);

// Gives "max_pooling2d" of "MaxPooling2D". Keras saves the first layer of a class in a group of
// this name, and the second in "max_pooling2d_1".
MUSTER_PART_EXPORT std::string keras_group(const std::string& class_name);

}  // namespace muster::inline v0_1::formats
