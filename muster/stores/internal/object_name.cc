#include "muster/stores/internal/object_name.h"

#include <algorithm>
#include <cctype>

#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::stores::internal {

std::string ObjectName::directory_prefix() const { return key.empty() ? "" : key + "/"; }

bool ObjectName::has_empty_part() const {
  return key.starts_with('/') || key.find("//") != std::string::npos;
}

std::string ObjectName::empty_part_hint() const {
  std::string plain;
  for (const char letter : key) {
    if (letter != '/' || (!plain.empty() && plain.back() != '/')) plain += letter;
  }
  return "the name has an empty part, '//', which belongs to it: should it be " +
         with_key(plain).uri() + "?";
}

Result<ObjectName> parse_object_name(std::string_view scheme, const std::string& uri) {
  const std::string start = std::string(scheme) + "://";
  ObjectName name{std::string(scheme), "", ""};
  if (!uri.starts_with(start)) {
    return invalid_argument("'" + printable_beginning(uri) + "' is not an URI of '" + start + "'",
                            "write " + start + "BUCKET/KEY");
  }
  const std::string rest = uri.substr(start.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  name.bucket = rest.substr(0, slash);
  const bool well_formed =
      !name.bucket.empty() && std::ranges::all_of(name.bucket, [](unsigned char letter) {
        return std::isalnum(letter) || letter == '.' || letter == '-' || letter == '_';
      });
  if (!well_formed) {
    return invalid_argument("'" + printable_beginning(uri) + "' names no bucket",
                            "write " + start + "BUCKET/KEY");
  }
  if (!is_utf8(rest)) {
    return invalid_argument("'" + printable_beginning(uri) + "' is not in UTF-8",
                            "stores name objects in UTF-8 alone: give it another name");
  }
  name.key = rest.substr(std::min(slash + 1, rest.size()));
  while (name.key.ends_with('/')) name.key.pop_back();
  return name;
}

std::string percent_encode(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) || letter == '-' || letter == '.' || letter == '_' || letter == '~' ||
        (keep_slashes && letter == '/')) {
      encoded += letter;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

Query::Query(std::initializer_list<std::pair<std::string, std::string>> parameters) {
  for (const auto& [name, value] : parameters) add(name, value);
}

void Query::add(std::string_view name, std::string_view value) {
  std::pair<std::string, std::string> entry(percent_encode(name), percent_encode(value));
  encoded_.insert(std::ranges::upper_bound(encoded_, entry), std::move(entry));
}

std::string Query::text() const {
  std::string text;
  for (const auto& [name, value] : encoded_) {
    if (!text.empty()) text += '&';
    text += name + "=" + value;
  }
  return text;
}

}  // namespace muster::inline v0_1::stores::internal
