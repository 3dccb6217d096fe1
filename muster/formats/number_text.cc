#include "muster/formats/number_text.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <type_traits>

namespace muster::inline v0_1::formats {
namespace {

// All the powers of ten a double holds exactly.
constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int kLargestPower = 22;
constexpr uint64_t kExactInDouble = uint64_t{1} << 53;
constexpr ptrdiff_t kDigitsOf64Bits = 19;  // this many digits always fit

bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }

void trim_blanks(const char*& begin, const char*& end) {
  while (begin < end && is_blank(*begin)) ++begin;
  while (begin < end && is_blank(end[-1])) --end;
}

// Adds the digits from `at` on to *number; where they end. Eight digits at a time, by shifts and
// masks of 16 bytes, were slower: fields are short.
const char* read_digits(const char* at, const char* end, uint64_t* number) {
  uint64_t value = *number;
  for (; at < end; ++at) {
    const auto digit = static_cast<unsigned char>(*at - '0');
    if (digit > 9) break;
    value = value * 10 + digit;
  }
  *number = value;
  return at;
}

// Whether a decimal number that is out of range is too small rather than too large: whether the
// exponent of its first digit is negative.
bool is_tiny(const char* begin, const char* end) {
  const char* mark = std::find_if(begin, end, [](char c) { return (c | 0x20) == 'e'; });
  const char* point = std::find(begin, mark, '.');
  const char* first = std::find_if(begin, mark, [](char c) { return c >= '1' && c <= '9'; });
  int64_t magnitude = first < point ? point - first : point - first + 1;
  if (mark != end) {
    const char* digits = mark + 1 + (mark + 1 < end && mark[1] == '+');
    int64_t exponent = 0;
    const auto [_, code] = std::from_chars(digits, end, exponent);
    if (code == std::errc::result_out_of_range) return *digits == '-';
    constexpr int64_t kFarAway = int64_t{1} << 40;  // beyond the digits of any text
    magnitude += std::clamp(exponent, -kFarAway, kFarAway);
  }
  return magnitude < 0;
}

// The slow way, for texts that the quick one leaves: `begin` is after the sign.
template <typename Float>
bool parse_any(const char* begin, const char* end, Float* magnitude) {
  // A second sign, which std::from_chars would take.
  if (begin == end || *begin == '-') return false;
  Float value = 0;
  const auto [last, code] = std::from_chars(begin, end, value);
  if (last != end) return false;
  if (code == std::errc::result_out_of_range) {
    if (!is_tiny(begin, end)) return false;
    value = 0;
  } else if (code != std::errc()) {
    return false;
  }
  *magnitude = value;
  return true;
}

// The short numbers of most files go a way of their own: a CSV file of them took 20 to 40 % longer
// to read with fast_float, and std::from_chars is slower than that.
template <typename Float>
bool parse_float(std::string_view text, Float* number) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  trim_blanks(begin, end);
  if (begin == end) return false;
  // A sign comes or not without a pattern: a branch on it would cost more than the digits.
  const bool negative = *begin == '-';
  begin += negative || *begin == '+' ? 1 : 0;
  const auto done = [&](Float magnitude) {
    constexpr Float kSigns[] = {1, -1};
    *number = magnitude * kSigns[negative];
    return true;
  };

  uint64_t mantissa = 0;
  const char* at = read_digits(begin, end, &mantissa);
  ptrdiff_t digits = at - begin;
  int64_t exponent = 0;
  if (at < end && *at == '.') {
    const char* fraction = ++at;
    at = read_digits(fraction, end, &mantissa);
    exponent = -(at - fraction);
    digits += at - fraction;
  }
  bool quick = digits > 0 && digits <= kDigitsOf64Bits && mantissa <= kExactInDouble;
  if (quick && at < end && (*at | 0x20) == 'e') {
    const char* sign = ++at;
    const bool down = at < end && *at == '-';
    if (at < end && (down || *at == '+')) ++at;
    uint64_t power = 0;
    const char* power_end = read_digits(at, end, &power);
    quick = power_end > at && power_end - at <= 4;
    exponent += down ? -static_cast<int64_t>(power) : static_cast<int64_t>(power);
    at = quick ? power_end : sign;
  }
  if (quick && at == end && exponent >= -kLargestPower && exponent <= kLargestPower) {
    // Both operands are exact, so that the result is the double nearest to the number.
    const double value = exponent < 0 ? static_cast<double>(mantissa) / kPowers[-exponent]
                                      : static_cast<double>(mantissa) * kPowers[exponent];
    if constexpr (std::is_same_v<Float, double>) {
      return done(value);
    } else {
      // Rounding twice is rounding once unless the double lies half-way between two floats: then
      // the number may lie on either side of it.
      constexpr uint64_t kBelowFloat = (uint64_t{1} << 29) - 1;
      constexpr uint64_t kHalf = uint64_t{1} << 28;
      if ((std::bit_cast<uint64_t>(value) & kBelowFloat) != kHalf) {
        return done(static_cast<float>(value));
      }
    }
  }
  Float magnitude = 0;
  return parse_any(begin, end, &magnitude) && done(magnitude);
}

}  // namespace

bool parse_number(std::string_view text, float* number) { return parse_float(text, number); }
bool parse_number(std::string_view text, double* number) { return parse_float(text, number); }

bool parse_number(std::string_view text, int64_t* number) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  trim_blanks(begin, end);
  // std::from_chars takes a minus, and no plus.
  if (begin < end && *begin == '+' && (++begin == end || *begin == '-')) return false;
  int64_t value = 0;
  const auto [last, code] = std::from_chars(begin, end, value);
  if (code != std::errc() || last != end) return false;
  *number = value;
  return true;
}

}  // namespace muster::inline v0_1::formats
