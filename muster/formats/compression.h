// How the bytes of a file are compressed.
#pragma once

#include <string_view>

namespace muster::inline v0_1::formats {

// The compression of a whole file. With kAuto a reader detects it from the first bytes, and a
// writer does not compress.
enum class Compression { kAuto, kNone, kGzip, kZlib };

// Returns "auto", "none", "gzip" or "zlib".
constexpr std::string_view to_string(Compression compression) {
  constexpr std::string_view kNames[] = {"auto", "none", "gzip", "zlib"};
  return kNames[static_cast<int>(compression)];
}

}  // namespace muster::inline v0_1::formats
