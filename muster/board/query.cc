#include "muster/board/query.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::board {
namespace {

// The text with percent signs decoded.
std::string decoded(std::string_view text) {
  const auto digit = [](char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
    return -1;
  };
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      plain += text[at] == '+' ? ' ' : text[at];
      continue;
    }
    const bool fits = at + 2 < text.size();
    const int high = fits ? digit(text[at + 1]) : -1;
    const int low = fits ? digit(text[at + 2]) : -1;
    if (high < 0 || low < 0)
      throw invalid_argument("the query has a '%' without two hexadecimal digits");
    plain += static_cast<char>(high * 16 + low);
    at += 2;
  }
  return plain;
}

Error wrong(const std::string& name, const std::string& value, const std::string& wanted) {
  return invalid_argument(
      fmt::format("'{}' is '{}'; it must be {}", name, printable_beginning(value), wanted));
}

}  // namespace

Query::Query(std::string_view query) {
  for (const std::string& part : split(query, '&')) {
    if (part.empty()) continue;
    const size_t equal = part.find('=');
    values_[decoded(part.substr(0, equal))] =
        equal == std::string::npos ? "" : decoded(part.substr(equal + 1));
  }
}

std::string Query::text(const std::string& name, const std::string& fallback) const {
  const auto found = values_.find(name);
  return found == values_.end() ? fallback : found->second;
}

int64_t Query::integer(const std::string& name, int64_t at_least, int64_t at_most,
                       std::optional<int64_t> fallback) const {
  if (!has(name) && fallback) return *fallback;
  const auto value = parse_int(text(name));
  if (!value || *value < at_least || *value > at_most) {
    throw wrong(name, text(name), fmt::format("a whole number from {} to {}", at_least, at_most));
  }
  return *value;
}

std::optional<double> Query::number(const std::string& name) const {
  if (!has(name)) return std::nullopt;
  const auto value = parse_double(text(name));
  if (!value || !std::isfinite(*value)) throw wrong(name, text(name), "a finite number");
  return value;
}

std::vector<size_t> Query::numbers(const std::string& name, size_t count) const {
  std::vector<size_t> all;
  for (const std::string& part : split(text(name), ',')) {
    const size_t dash = part.find('-');
    const auto first = parse_int(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_int(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= static_cast<int64_t>(count)) {
      throw wrong(name, text(name),
                  fmt::format("a list such as 0,3,7-9 of numbers below {}", count));
    }
    for (int64_t each = *first; each <= *last; ++each) all.push_back(static_cast<size_t>(each));
    if (all.size() > count) throw wrong(name, text(name), "a list that names each number once");
  }
  return all;
}

}  // namespace muster::inline v0_1::board
