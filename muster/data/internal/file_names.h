// The part of saved positions about the files of a pipeline. Thread safety: pure functions.
#pragma once

#include <span>
#include <string>

namespace muster::inline v0_1::data::internal {

// Tells lists of files apart, by their names and order. The directory they all lie in does not
// count: files may have moved, all together.
std::string digest_of_names(std::span<const std::string> paths);

}  // namespace muster::inline v0_1::data::internal
