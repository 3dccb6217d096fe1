// The header of a .npy file: a Python dict as text. Thread safety: a pure function.
#pragma once

#include <string>
#include <string_view>

#include "muster/formats/npy.h"

namespace muster::inline v0_1::formats::internal {

// Reads the type, order and shape of the array; data_offset stays 0. `name` is the name of the file
// in errors. The errors are the same as in read_npy_header(), except for those that need the size
// of the file.
Result<NpyHeader> parse_npy_header(std::string_view text, const std::string& name);

}  // namespace muster::inline v0_1::formats::internal
