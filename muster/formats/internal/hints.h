// Hints that readers of files give in more than one place. Thread safety: constants.
#pragma once

namespace muster::inline v0_1::formats::internal {

// For a file whose bytes were damaged or are missing.
inline constexpr const char* kCopyAgain = "copy or download the file again";

}  // namespace muster::inline v0_1::formats::internal
