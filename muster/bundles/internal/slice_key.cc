#include "muster/bundles/internal/slice_key.h"

#include <bit>

namespace muster::inline v0_1::tensorflow::internal {
namespace {

// A number that is not negative: how many bytes it has, and these, the highest first.
void append_number(std::string& out, uint64_t number) {
  const int bytes = (std::bit_width(number) + 7) / 8;
  out += static_cast<char>(bytes);
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(number >> (8 * i));
}

// A text, ended by 0 1; its own bytes 0 and 255 are followed by a byte that distinguishes them from
// the end.
void append_text(std::string& out, std::string_view text) {
  for (const char letter : text) {
    out += letter;
    if (letter == '\0') out += '\xff';
    if (letter == '\xff') out += '\0';
  }
  out += '\0';
  out += '\1';
}

// A number of any sign in `n` bytes, the highest first. The first n bits, turned over where the
// number is negative, say how many bytes there are; 7 n - 1 bits of the number and its sign follow.
void append_signed(std::string& out, int64_t number) {
  const uint64_t magnitude = static_cast<uint64_t>(number < 0 ? ~number : number);
  const int bytes = std::bit_width(magnitude) / 7 + 1;
  const uint64_t bits = static_cast<uint64_t>(number);
  for (int i = bytes - 1; i >= 0; --i) {
    // Above its eight bytes a number has its sign alone.
    uint64_t byte = i < 8 ? bits >> (8 * i) & 0xff : (number < 0 ? 0xff : 0);
    // The bits that encode the length, from the first one of all.
    const int ahead = bytes - 1 - i;
    const int marked = bytes - 8 * ahead;
    if (marked >= 8) {
      byte ^= 0xff;
    } else if (marked > 0) {
      byte ^= 0xff << (8 - marked) & 0xff;
    }
    out += static_cast<char>(byte);
  }
}

}  // namespace

std::string slice_key(std::string_view name, const std::vector<Extent>& extents) {
  std::string key;
  append_number(key, 0);
  append_text(key, name);
  append_number(key, extents.size());
  for (const Extent& extent : extents) {
    append_signed(key, extent.start);
    append_signed(key, extent.length);
  }
  return key;
}

}  // namespace muster::inline v0_1::tensorflow::internal
