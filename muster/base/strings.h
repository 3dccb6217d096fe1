// Small text helpers that several folders need. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Splits "a,b," at ',' into {"a", "b", ""}, and the empty text into {""}.
MUSTER_PART_EXPORT std::vector<std::string> split(std::string_view text, char separator);
// Returns the text without blanks, tabs and line ends around it.
MUSTER_PART_EXPORT std::string_view trim(std::string_view text);

// Returns the text with "A" to "Z" as small letters; other bytes stay.
MUSTER_PART_EXPORT std::string to_lower(std::string_view text);

// Joins {"a", "b"} with ", " to "a, b".
MUSTER_PART_EXPORT std::string join(const std::vector<std::string>& parts,
                                    std::string_view separator);
// Returns "'a', 'b'", for lists in messages. After `most` entries stands "... and 7 more"; an
// empty list gives "(none)".
MUSTER_PART_EXPORT std::string join_quoted(const std::vector<std::string>& parts, size_t most = 20);
// Returns the parts as lines of their own, each after a line end and `indent`. After `most` of
// them stands a line "... and 7 more".
MUSTER_PART_EXPORT std::string list_lines(const std::vector<std::string>& parts, size_t most,
                                          std::string_view indent = "");

// Reads the whole text as a decimal number; returns nothing when it is none.
MUSTER_PART_EXPORT std::optional<int64_t> parse_int(std::string_view text);
MUSTER_PART_EXPORT std::optional<double> parse_double(std::string_view text);

// Returns text such as "512 B", "1.5 KiB" and "3.2 GiB".
MUSTER_PART_EXPORT std::string human_bytes(uint64_t bytes);
// Returns text such as "0.25 s", "12.3 s", "4 min 05 s" and "2 h 03 min"; negative and non-finite
// values become "?".
MUSTER_PART_EXPORT std::string human_duration(double seconds);
// Whether `text` is well-formed UTF-8 (no overlong forms, no surrogates).
MUSTER_PART_EXPORT bool is_utf8(std::string_view text);
// Returns text such as "1f 8b 08".
std::string hex_bytes(Bytes bytes);

}  // namespace muster::inline v0_1
