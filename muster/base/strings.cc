#include "muster/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "muster/base/printable.h"

namespace muster::inline v0_1 {
namespace {

template <typename Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, number);
  if (text.empty() || code != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lower;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string join_quoted(const std::vector<std::string>& parts, size_t most) {
  if (parts.empty()) return "(none)";
  std::string text;
  for (size_t i = 0; i < std::min(parts.size(), most); ++i) {
    if (i > 0) text += ", ";
    text += "'" + printable(parts[i]) + "'";
  }
  if (parts.size() > most) text += fmt::format(" ... and {} more", parts.size() - most);
  return text;
}

std::string list_lines(const std::vector<std::string>& parts, size_t most,
                       std::string_view indent) {
  std::string text;
  for (size_t i = 0; i < std::min(parts.size(), most); ++i)
    text += fmt::format("\n{}{}", indent, parts[i]);
  if (parts.size() > most) text += fmt::format("\n{}... and {} more", indent, parts.size() - most);
  return text;
}

std::optional<int64_t> parse_int(std::string_view text) { return parse_whole<int64_t>(text); }
std::optional<double> parse_double(std::string_view text) { return parse_whole<double>(text); }

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // Without this, 1023.95 would print as 1024.0 of the smaller unit.
  for (; value >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e15) return "?";
  if (seconds < 9.995) return fmt::format("{:.2f} s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) continue;
    const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4) return false;
    uint32_t code = lead & (0x3fu >> more);
    for (int k = 0; k < more; ++k, ++i) {
      if (i == text.size() || (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return false;
      code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3f);
    }
    if (more == 2 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return false;
    if (more == 3 && (code < 0x10000 || code > 0x10ffff)) return false;
  }
  return true;
}

std::string hex_bytes(Bytes bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    if (!text.empty()) text += ' ';
    text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  }
  return text;
}

}  // namespace muster::inline v0_1
