// The header of a .npy file: a Python dict as text. Thread safety: a pure function.
#pragma once

#include <string>
#include <string_view>

#include "muster/formats/npy.h"

namespace muster::inline v0_1::formats::internal {

// Type, order and shape of the array; data_offset stays 0. `name` is how errors call the file. As
// read_npy_header() says, without what takes the size of the file.
Result<NpyHeader> parse_npy_header(std::string_view text, const std::string& name);

}  // namespace muster::inline v0_1::formats::internal
