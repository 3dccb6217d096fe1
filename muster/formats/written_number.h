// Numbers as people and spreadsheets write them: with separators between thousands, a decimal
// comma, a currency or a unit, a percent sign, parentheses for what is negative.
//
//   WrittenNumber::read("1.234,50 €")  // 1234.5 with a decimal comma, and nothing without; unit
//   "€" WrittenNumber::read("1,234")       // 1234 with a decimal point, 1.234 with a decimal comma
//
// Thread safety: values and pure functions.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace muster::inline v0_1::formats {

// How the numbers of one column are written.
struct NumberFormat {
  bool decimal_comma = false;
  std::string unit = {};  // is next to them; "%" makes hundredths of them
  bool operator==(const NumberFormat&) const = default;
};

// A text that is a number once the meaning of its marks is known.
class WrittenNumber {
 public:
  // Nothing for a text that is not a number whatever its marks mean, or too large for a double.
  // Taken are: one sign in front (+, -, or one of Unicode's that look like a minus) or a minus at
  // the end; parentheses, which mean a negative number; groups of three digits (after the first
  // group of two too, as in India) with one and the same mark between them, a point, a comma, a
  // blank (a narrow one or one that does not break, too) or an apostrophe; a fraction; an exponent;
  // and a unit: a currency in front, or at the end letters and signs without digits, of 12 bytes at
  // most. Infinity and what is not a number are none.
  static std::optional<WrittenNumber> read(std::string_view text);

  // The number where the mark of the fraction is a comma, or else a point; nothing where the text
  // cannot mean that.
  std::optional<double> value(bool decimal_comma) const { return values_[decimal_comma ? 1 : 0]; }
  // The unit without the blanks around it: a part of the text.
  std::string_view unit() const { return unit_; }

 private:
  std::array<std::optional<double>, 2> values_;
  std::string_view unit_;
};

// The marks of a file whose numbers are all written in the same way.
struct NumberMarks {
  char decimal = '.';
  char thousands = 0;  // 0: none; ' ' is any blank, '\'' any apostrophe
  bool operator==(const NumberMarks&) const = default;
};

// Writes the number into `plain` as parse_number() takes it; false for a text that is not a number
// of these marks: thousands stand in groups, and nothing but a sign, an exponent and blanks around
// it are there next to them.
bool to_plain_number(std::string_view text, const NumberMarks& marks, std::string* plain);

// Reads a number of a column: one without a unit, or with that of the column.
std::optional<double> number_of(std::string_view text, const NumberFormat& format);

// The text without blanks around it, those of Unicode among them.
std::string_view trim_all_blanks(std::string_view text);

}  // namespace muster::inline v0_1::formats
