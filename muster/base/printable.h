// Untrusted text in messages: the content of a damaged file must not control a terminal. Thread
// safety: a pure function.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Returns the text with each byte of a control character, and each byte that is not part of UTF-8,
// written as "\x1b"; all else stays unchanged, including text that a terminal shows unchanged.
MUSTER_PART_EXPORT std::string printable(std::string_view text);

// The same, if line ends and tabs stay: for messages of several lines.
std::string printable_lines(std::string_view text);

// printable() of the first `most` bytes; "..." follows a longer text. For messages about a text
// that may have any length.
MUSTER_PART_EXPORT std::string printable_beginning(std::string_view text, size_t most = 100);

}  // namespace muster::inline v0_1
