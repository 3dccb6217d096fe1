#include "muster/jobs/internal/yaml_text.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "muster/base/strings.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

using Json = nlohmann::ordered_json;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether the text needs no quotes: it begins with a letter or a slash, so it is not a number, has
// no byte with a meaning in YAML, and is none of the words that some reader takes for a boolean or
// for nothing.
bool is_plain(const std::string& text) {
  static const std::set<std::string> kWords = {"y",   "n",    "yes",   "no",  "on",
                                               "off", "true", "false", "null"};
  constexpr std::string_view kOthers = "-_./:=@";
  return !text.empty() && (is_letter(text[0]) || text[0] == '/') && text.back() != ':' &&
         std::ranges::all_of(text,
                             [&](char c) {
                               return is_letter(c) || is_digit(c) ||
                                      kOthers.find(c) != std::string_view::npos;
                             }) &&
         !kWords.contains(to_lower(text));
}

// Returns the text in single quotes, in which a backslash and a double quote are themselves.
std::string in_single_quotes(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "''" : std::string(1, c);
  return result + "'";
}

std::string scalar(const Json& value) {
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (is_plain(text)) return text;
    const bool printable = std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
    if (printable && text.find('"') != std::string::npos) return in_single_quotes(text);
  }
  // YAML reads JSON's texts, numbers, {} and [] as JSON does.
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_block(const Json& value) { return value.is_structured() && !value.empty(); }

// Writes the lines of `value`; the first continues the line that is begun.
void write(const Json& value, size_t indent, std::string& out) {
  const std::string blanks(indent, ' ');
  bool first = true;
  const auto begin_line = [&] {
    if (!std::exchange(first, false)) out += blanks;
  };
  if (value.is_array() && is_block(value)) {
    for (const Json& item : value) {
      begin_line();
      out += "- ";
      write(item, indent + 2, out);
    }
  } else if (value.is_object() && is_block(value)) {
    for (const auto& [key, item] : value.items()) {
      begin_line();
      out += scalar(key) + ":";
      if (!is_block(item)) {
        out += " " + scalar(item) + "\n";
        continue;
      }
      // A list is as deep as its key, as kubectl prints it.
      const size_t deeper = item.is_array() ? indent : indent + 2;
      out += "\n" + std::string(deeper, ' ');
      write(item, deeper, out);
    }
  } else {
    out += scalar(value) + "\n";
  }
}

}  // namespace

std::string to_yaml(const Json& value) {
  std::string out;
  write(value, 0, out);
  return out;
}

}  // namespace muster::inline v0_1::jobs::internal
