#include "muster/formats/written_number.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "muster/formats/number_text.h"

namespace muster::inline v0_1::formats {
namespace {

constexpr size_t kLongest = 200;  // bytes of a number
constexpr size_t kLongestUnit = 12;

// The ASCII blanks, then the blanks of Unicode that spreadsheets write.
constexpr std::array<std::string_view, 11> kBlanks = {" ",
                                                      "\t",
                                                      "\r",
                                                      "\n",
                                                      "\xc2\xa0",
                                                      "\xe2\x80\x87",
                                                      "\xe2\x80\x88",
                                                      "\xe2\x80\x89",
                                                      "\xe2\x80\x8a",
                                                      "\xe2\x80\xaf",
                                                      "\xe3\x80\x80"};
// hyphen, hyphen that does not break, figure dash, en dash, minus, small and full-width hyphen
constexpr std::array<std::string_view, 8> kMinus = {"-",
                                                    "\xe2\x80\x90",
                                                    "\xe2\x80\x91",
                                                    "\xe2\x80\x92",
                                                    "\xe2\x80\x93",
                                                    "\xe2\x88\x92",
                                                    "\xef\xb9\xa3",
                                                    "\xef\xbc\x8d"};
constexpr std::array<std::string_view, 2> kApostrophes = {"'", "\xe2\x80\x99"};
// Marks that may precede an amount of money.
constexpr std::array<std::string_view, 47> kCurrencies = {"US$",
                                                          "A$",
                                                          "C$",
                                                          "R$",
                                                          "HK$",
                                                          "NZ$",
                                                          "$",
                                                          "\xe2\x82\xac",
                                                          "\xc2\xa3",
                                                          "\xc2\xa5",
                                                          "\xe2\x82\xb9",
                                                          "\xe2\x82\xbd",
                                                          "\xe2\x82\xa9",
                                                          "\xe2\x82\xba",
                                                          "\xe2\x82\xaa",
                                                          "\xe2\x82\xab",
                                                          "\xe2\x82\xb4",
                                                          "\xe2\x82\xa6",
                                                          "\xe0\xb8\xbf",
                                                          "\xc2\xa2",
                                                          "Rs.",
                                                          "Rs",
                                                          "kr",
                                                          "Fr.",
                                                          "EUR",
                                                          "USD",
                                                          "GBP",
                                                          "JPY",
                                                          "CNY",
                                                          "CHF",
                                                          "INR",
                                                          "AUD",
                                                          "CAD",
                                                          "NZD",
                                                          "SEK",
                                                          "NOK",
                                                          "DKK",
                                                          "PLN",
                                                          "CZK",
                                                          "HUF",
                                                          "RUB",
                                                          "BRL",
                                                          "MXN",
                                                          "KRW",
                                                          "TRY",
                                                          "ZAR",
                                                          "SGD"};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// Takes one of `marks` off the front.
bool take(std::string_view* text, std::span<const std::string_view> marks) {
  for (const std::string_view mark : marks) {
    if (!text->starts_with(mark)) continue;
    text->remove_prefix(mark.size());
    return true;
  }
  return false;
}
bool take_last(std::string_view* text, std::span<const std::string_view> marks) {
  for (const std::string_view mark : marks) {
    if (!text->ends_with(mark)) continue;
    text->remove_suffix(mark.size());
    return true;
  }
  return false;
}

size_t digits_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
}

// Takes the mark between two groups of digits off the front, one of the same kind as `kind` is;
// 0 is any but the mark of the fraction.
bool take_separator(std::string_view* text, char point, char* kind) {
  std::string_view rest = *text;
  char found = 0;
  if (rest.empty()) return false;
  if ((rest.front() == '.' || rest.front() == ',' || rest.front() == *kind) &&
      rest.front() != point) {
    found = rest.front();
    rest.remove_prefix(1);
  } else if (take(&rest, kApostrophes)) {
    found = '\'';
  } else if (take(&rest, kBlanks)) {
    found = ' ';
  }
  if (found == 0 || (*kind != 0 && *kind != found) || rest.empty() || !is_digit(rest.front()))
    return false;
  *kind = found;
  *text = rest;
  return true;
}

// Whether groups of these sizes are thousands: 1 234 567, or 12,34,567 of India.
bool are_thousands(const std::vector<size_t>& sizes, std::string_view first) {
  if (sizes.size() == 1) return true;
  if (sizes.front() > 3 || sizes.front() == 0 || sizes.back() != 3 || first.front() == '0')
    return false;
  const auto inner = std::span(sizes).subspan(1, sizes.size() - 2);
  return std::ranges::all_of(inner, [](size_t size) { return size == 3; }) ||
         (sizes.front() <= 2 && std::ranges::all_of(inner, [](size_t size) { return size == 2; }));
}

// Reads the digits, marks and exponent at the front of `text`: the same number as a program writes
// it, and how many bytes it is. Nothing where `point` is not the mark of its fraction.
struct Body {
  std::string plain;
  size_t size = 0;
  bool has_exponent = false;
};
std::optional<Body> read_body(std::string_view text, char point, bool has_thousands = true,
                              char kind = 0) {
  Body body;
  std::string_view rest = text;
  std::vector<size_t> sizes;
  do {
    sizes.push_back(digits_of(rest));
    body.plain += rest.substr(0, sizes.back());
    rest.remove_prefix(sizes.back());
  } while (has_thousands && sizes.back() > 0 && take_separator(&rest, point, &kind));
  if (!are_thousands(sizes, text)) return std::nullopt;
  bool any = sizes.front() > 0;
  if (rest.starts_with(point)) {
    const size_t digits = digits_of(rest.substr(1));
    any = any || digits > 0;
    body.plain += '.';
    body.plain += rest.substr(1, digits);
    rest.remove_prefix(1 + digits);
  }
  if (!any) return std::nullopt;
  if (!rest.empty() && (rest.front() | 0x20) == 'e') {
    std::string_view power = rest.substr(1);
    std::string_view sign;
    if (power.starts_with('+')) {
      power.remove_prefix(1);
    } else if (take(&power, kMinus)) {
      sign = "-";
    }
    if (const size_t digits = digits_of(power); digits > 0) {
      body.has_exponent = true;
      body.plain += 'e';
      body.plain += sign;
      body.plain += power.substr(0, digits);
      rest = power.substr(digits);
    }
  }
  body.size = text.size() - rest.size();
  return body;
}

// What may follow a number: "kg", "km/h", "°C", "€", "%".
bool is_unit(std::string_view text) {
  return text.size() <= kLongestUnit &&
         std::ranges::all_of(text,
                             [](char letter) {
                               const auto byte = static_cast<unsigned char>(letter);
                               const char small = static_cast<char>(letter | 0x20);
                               return byte >= 0x80 || (small >= 'a' && small <= 'z') ||
                                      std::string_view("$%/\"'.").find(letter) !=
                                          std::string_view::npos;
                             }) &&
         std::string_view(".'").find(text.front()) == std::string_view::npos;
}

}  // namespace

std::string_view trim_all_blanks(std::string_view text) {
  while (take(&text, kBlanks)) continue;
  while (take_last(&text, kBlanks)) continue;
  return text;
}

std::optional<WrittenNumber> WrittenNumber::read(std::string_view text) {
  text = trim_all_blanks(text);
  if (text.empty() || text.size() > kLongest || std::ranges::none_of(text, is_digit))
    return std::nullopt;
  WrittenNumber number;
  bool negative = false, has_sign = false;
  if (text.front() == '(' && text.back() == ')') {
    negative = has_sign = true;
    text = trim_all_blanks(text.substr(1, text.size() - 2));
  }
  // A sign may be on either side of the currency.
  const auto take_sign = [&] {
    if (has_sign || text.empty()) return;
    if (text.front() == '+') {
      text.remove_prefix(1);
      has_sign = true;
    } else if (take(&text, kMinus)) {
      negative = has_sign = true;
    }
    text = trim_all_blanks(text);
  };
  take_sign();
  const std::string_view with_currency = text;
  if (take(&text, kCurrencies)) {
    number.unit_ = with_currency.substr(0, with_currency.size() - text.size());
    text = trim_all_blanks(text);
    take_sign();
  }
  if (!has_sign && !text.empty() && !is_digit(text.front()) && text.front() != '.' &&
      text.front() != ',')
    return std::nullopt;
  std::string_view suffix;
  for (const bool comma : {false, true}) {
    const std::optional<Body> body = read_body(text, comma ? ',' : '.');
    if (!body) continue;
    std::string_view unit = trim_all_blanks(text.substr(body->size));
    const bool minus_at_end = !has_sign && take_last(&unit, kMinus);
    unit = trim_all_blanks(unit);
    if (!unit.empty() && (!number.unit_.empty() || !is_unit(unit))) continue;
    double value = 0;
    if (!parse_number(body->plain + (unit == "%" && !body->has_exponent ? "e-2" : ""), &value) ||
        !std::isfinite(value))
      continue;
    if (unit == "%" && body->has_exponent) value /= 100;
    number.values_[comma ? 1 : 0] = negative || minus_at_end ? -value : value;
    suffix = unit;
  }
  if (!number.values_[0] && !number.values_[1]) return std::nullopt;
  if (!suffix.empty()) number.unit_ = suffix;
  return number;
}

bool to_plain_number(std::string_view text, const NumberMarks& marks, std::string* plain) {
  text = trim_all_blanks(text);
  plain->clear();
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  } else if (take(&text, kMinus)) {
    *plain = '-';
  }
  const auto body = read_body(text, marks.decimal, marks.thousands != 0, marks.thousands);
  if (body && body->size == text.size()) {
    *plain += body->plain;
    return true;
  }
  // The words, but no result of these marks from other numbers.
  if (std::ranges::any_of(text, is_digit)) return false;
  *plain += text;
  return true;
}

std::optional<double> number_of(std::string_view text, const NumberFormat& format) {
  // The short way: most numbers are written as programs write them.
  double value = 0;
  const bool may_be_thousands = format.decimal_comma && text.find('.') != std::string_view::npos;
  if (!may_be_thousands && parse_number(text, &value))
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
  const std::optional<WrittenNumber> number = WrittenNumber::read(text);
  if (!number || (!number->unit().empty() && number->unit() != format.unit)) return std::nullopt;
  return number->value(format.decimal_comma);
}

}  // namespace muster::inline v0_1::formats
