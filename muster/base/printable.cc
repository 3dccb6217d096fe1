#include "muster/base/printable.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"

namespace muster::inline v0_1 {
namespace {

// Returns the bytes of the character that `text` begins with; 0 when it begins with none, or with a
// control character.
size_t shown_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return lead < 0x20 || lead == 0x7f ? 0 : 1;
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  const std::string_view letter = text.substr(0, bytes);
  if (letter.size() < bytes || !is_utf8(letter)) return 0;
  // U+0080 to U+009F are control characters too.
  const bool control = lead == 0xc2 && static_cast<unsigned char>(letter[1]) < 0xa0;
  return control ? 0 : bytes;
}

// As printable(), except that the letters of `kept` stay.
std::string shown(std::string_view text, std::string_view kept) {
  std::string result;
  while (!text.empty()) {
    const size_t bytes = kept.find(text.front()) != std::string_view::npos ? 1 : shown_bytes(text);
    const size_t taken = std::max<size_t>(bytes, 1);
    if (bytes > 0) {
      result += text.substr(0, bytes);
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    }
    text.remove_prefix(taken);
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return shown(text, ""); }
std::string printable_lines(std::string_view text) { return shown(text, "\n\t"); }

std::string printable_beginning(std::string_view text, size_t most) {
  if (text.size() <= most) return printable(text);
  // The last character may be cut: the cut character begins after the last byte that is not the
  // start of a character.
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return printable(text.substr(0, end == 0 ? most : end)) + "...";
}

}  // namespace muster::inline v0_1
