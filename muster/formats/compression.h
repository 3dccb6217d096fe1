// How the bytes of a file are packed.
#pragma once

#include <string_view>

namespace muster::inline v0_1::formats {

// How a whole file is compressed. With kAuto a reader finds it out from the first bytes, and a
// writer does not compress.
enum class Compression { kAuto, kNone, kGzip, kZlib };

// Returns "auto", "none", "gzip" or "zlib".
constexpr std::string_view to_string(Compression compression) {
  constexpr std::string_view kNames[] = {"auto", "none", "gzip", "zlib"};
  return kNames[static_cast<int>(compression)];
}

}  // namespace muster::inline v0_1::formats
