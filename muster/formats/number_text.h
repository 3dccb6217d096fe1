// Numbers in text, read quickly and to the last bit. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::inline v0_1::formats {

// The whole of `text`, blanks and tabs around it aside, as a decimal number; false, and *number
// unchanged, when it is none. Fractions round to the nearest number, as strtof and strtod do; one
// too large for the type is none, one too small is 0. "inf" and "nan" are numbers.
bool parse_number(std::string_view text, float* number);
bool parse_number(std::string_view text, double* number);
// A whole number; none when it does not fit 64 bits.
bool parse_number(std::string_view text, int64_t* number);

}  // namespace muster::inline v0_1::formats
