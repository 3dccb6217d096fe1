#include "apps/train/table_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/formats/written_number.h"

namespace muster::app {
namespace {

constexpr size_t kShownNames = 5;
constexpr double kLargestExactDouble = 9007199254740992;  // 2^53: above it double rounds

// How many numbers have a unit, where not all have.
std::string which_have(const ColumnProfile& profile) {
  const int64_t numbers = profile.values() - profile.not_numbers();
  if (profile.with_unit() == numbers) return "";
  return fmt::format(", which {} of {} values have", profile.with_unit(), numbers);
}

}  // namespace

void TableNotes::look_at_label(const std::string& name, const ColumnProfile& label,
                               const std::set<std::string>& no_classes) {
  for (const auto& [word, count] : label.words()) {
    if (no_classes.contains(word)) continue;
    own_.push_back(fmt::format(
        "'{0}' is a class of '{1}', in {2} rows; if it means a missing value, pass --missing={0}",
        printable(word), printable(name), count));
  }
}

void TableNotes::look_at(const std::string& name, const ColumnProfile& profile) {
  for (const auto& [word, count] : profile.missing_fields()) missing_[word] += count;
  for (const auto& [word, count] : profile.words()) texts_[word].push_back(name);
  look_at_numbers(name, profile);
}

void TableNotes::look_at_texts(const std::string& name, const ColumnProfile& profile) {
  if (const std::vector<std::string> units = profile.mixed_units(); !units.empty()) {
    own_.push_back(
        fmt::format("'{}' holds numbers of several units ({}), and is read as texts; write all of "
                    "them in one",
                    printable(name), join_quoted(units, 4)));
    return;
  }
  if (profile.is_numeric() || profile.are_dates() || profile.not_numbers() * 2 > profile.values())
    return;
  for (const auto& [text, count] : profile.texts()) {
    if (formats::number_of(text, profile.format())) continue;
    own_.push_back(fmt::format(
        "'{}' is read as text: {} of {} values are not numbers, such as '{}'; if such a word means "
        "a missing value, name it with --missing",
        printable(name), profile.not_numbers(), profile.values(), printable_beginning(text, 40)));
    return;
  }
}

void TableNotes::look_at_spellings(const std::string& name, const ColumnProfile& profile) {
  if (profile.is_numeric()) return;
  std::map<std::string, std::string> spellings;
  for (const auto& [text, count] : profile.texts()) {
    const auto [other, is_new] = spellings.emplace(to_lower(text), text);
    if (is_new) continue;
    own_.push_back(fmt::format(
        "'{}' and '{}' are different texts in '{}'; if they mean the same, write them alike",
        printable_beginning(other->second, 40), printable_beginning(text, 40), printable(name)));
    return;
  }
}

void TableNotes::look_at_target(const std::string& name, const ColumnProfile& label) {
  if (label.fits_float()) return;
  const double most = std::max(std::abs(label.least()), std::abs(label.most()));
  const auto rounded = static_cast<float>(most);
  const float next = std::nextafter(rounded, std::numeric_limits<float>::infinity());
  own_.push_back(fmt::format(
      "'{}' is learned and predicted in 4 bytes, which hold its largest numbers to within {:.6g}; "
      "where that is too coarse, subtract {:.15g} from all of them",
      printable(name), (static_cast<double>(next) - static_cast<double>(rounded)) / 2,
      label.least()));
}

void TableNotes::look_at_numbers(const std::string& name, const ColumnProfile& profile) {
  if (!profile.is_numeric()) return;
  const DecimalEvidence seen = profile.evidence();
  const formats::NumberFormat& format = profile.format();
  if (decimals_.unknown(profile) && !format.decimal_comma) {
    (seen.maybe_point > seen.maybe_comma ? fractions_ : thousands_).push_back(name);
  } else if (format.decimal_comma && seen.comma + seen.maybe_comma + seen.maybe_point > 0) {
    commas_.push_back(name);
  }
  // Identifiers of 17 digits and more.
  const double largest = std::max(std::abs(profile.least()), std::abs(profile.most()));
  if (profile.all_whole() && largest > kLargestExactDouble) {
    own_.push_back(fmt::format(
        "'{}' holds whole numbers above {:.0f}, where different numbers become equal; if they are "
        "identifiers, exclude them (--exclude), or write a letter before each",
        printable(name), kLargestExactDouble));
  }
  if (format.unit == "%") {
    own_.push_back(fmt::format("'{}' is read as parts of 1: 50 % is 0.5{}", printable(name),
                               which_have(profile)));
  } else if (!format.unit.empty()) {
    own_.push_back(fmt::format("'{}' is read without its unit '{}'{}", printable(name),
                               printable(format.unit), which_have(profile)));
  }
}

std::vector<std::string> TableNotes::all() const {
  std::vector<std::string> notes = own_;
  if (!commas_.empty()) {
    notes.push_back(
        fmt::format("a comma is the mark of fractions in {}; where it is not, say --decimal=.",
                    join_quoted(commas_, kShownNames)));
  }
  if (!fractions_.empty()) {
    notes.push_back(
        fmt::format("a point is the decimal mark in {}: 1.234 is more than 1; if it separates "
                    "thousands, pass --decimal=,",
                    join_quoted(fractions_, kShownNames)));
  }
  if (!thousands_.empty()) {
    notes.push_back(
        fmt::format("a comma separates thousands in {}: 1,234 is 1234; if it is the decimal mark, "
                    "pass --decimal=,",
                    join_quoted(thousands_, kShownNames)));
  }
  for (const auto& [word, columns] : texts_) {
    notes.push_back(fmt::format(
        "'{0}' is an ordinary text in {1}; if it means a missing value, pass --missing={0}",
        printable(word), join_quoted(columns, kShownNames)));
  }
  std::vector<std::string> fields;
  for (const auto& [word, count] : missing_)
    fields.push_back(fmt::format("'{}' ({})", printable(word), count));
  if (!fields.empty()) {
    notes.push_back(
        fmt::format("besides empty fields these count as missing: {}; --missing sets them",
                    join(fields, ", ")));
  }
  return notes;
}

}  // namespace muster::app
