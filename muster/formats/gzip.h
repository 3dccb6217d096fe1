// Whole gzip streams (RFC 1952) in memory. Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "muster/base/bytes.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// Whether `bytes` start as a gzip stream does.
bool is_gzip(Bytes bytes);

// The content of one or more gzip members; `what` is the input's name in errors. Corrupt if the
// stream is cut short or damaged, with the count of bytes good so far.
Result<std::string> gunzip(Bytes bytes, std::string_view what);

// The same content gives the same bytes: no name, no time. Level 1 (fast) to 9 (small).
std::string gzip(Bytes bytes, int level = 6);

}  // namespace muster::inline v0_1::formats
