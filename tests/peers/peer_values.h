// Values of data elements as arrays of cases, and bytes as texts of them.
#pragma once

#include <string>
#include <string_view>

#include "muster/tensor/value.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {

// Texts of any shape, which an array of a case has too.
Value peer_value(const PeerArray& array);
PeerArray peer_array(const Value& value);

// Two digits for each byte: JSON has texts alone.
std::string bytes_of_hex(std::string_view hex);
std::string hex_of_bytes(std::string_view bytes);

// 'int64[2, 1] 3 4' or 'string[2] "a" "b"'.
std::string text_of(const Value& value);

}  // namespace muster::inline v0_1
