#include "apps/train/column_profile.h"

#include <algorithm>
#include <cmath>

#include "muster/formats/number_text.h"

namespace muster::app {
namespace {

// More different values are not counted: they are not categories.
constexpr size_t kMostCounted = 50000;
// A column with more units is not a column of numbers.
constexpr size_t kMostUnits = 8;

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// "2024-05-31", "2024-05-31 12:00:00", "31.05.2024", "5/31/24": three groups of digits at the
// front.
bool looks_like_date(std::string_view text) {
  size_t at = 0;
  char separator = 0;
  for (int group = 0; group < 3; ++group) {
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    if (at == begin || at - begin > 4) return false;
    if (group == 2) break;
    if (at == text.size()) return false;
    if (separator == 0) separator = text[at];
    if (text[at] != separator || (separator != '-' && separator != '/' && separator != '.'))
      return false;
    ++at;
  }
  return at == text.size() || text[at] == ' ' || text[at] == 'T';
}

}  // namespace

void ColumnProfile::Numbers::add(double number) {
  least = count == 0 ? number : std::min(least, number);
  most = count == 0 ? number : std::max(most, number);
  ++count;
  if (number == std::trunc(number)) ++whole;
  fit.add(number);
}

void ColumnProfile::Numbers::add(const Numbers& other) {
  if (other.count == 0) return;
  least = count == 0 ? other.least : std::min(least, other.least);
  most = count == 0 ? other.most : std::max(most, other.most);
  count += other.count;
  whole += other.whole;
  fit.merge(other.fit);
}

bool ColumnProfile::add_number(std::string_view text) {
  double number = 0;
  if (formats::parse_number(text, &number)) {
    if (!std::isfinite(number)) return false;
    plain_[0].add(number);
    const size_t point = text.find('.');
    if (point == std::string_view::npos) {
      plain_[1].add(number);
      return true;
    }
    // Most fractions are not of three digits, and then the point is theirs.
    constexpr size_t kThousands = 4;
    const auto written =
        text.size() - point == kThousands ? formats::WrittenNumber::read(text) : std::nullopt;
    if (written && written->value(true)) {
      plain_[1].add(*written->value(true));
      ++evidence_.maybe_point;
    } else {
      ++evidence_.point;
    }
    return true;
  }
  const auto written = formats::WrittenNumber::read(text);
  if (!written) return false;
  ByMark* of = &plain_;
  if (!written->unit().empty()) {
    auto found = units_.find(written->unit());
    if (found == units_.end()) {
      if (units_.size() == kMostUnits) return false;
      found = units_.emplace(written->unit(), ByMark()).first;
    }
    of = &found->second;
  }
  const auto point = written->value(false), comma = written->value(true);
  if (point) (*of)[0].add(*point);
  if (comma) (*of)[1].add(*comma);
  if (point && comma && *point != *comma) {
    ++(text.find(',') != std::string_view::npos ? evidence_.maybe_comma : evidence_.maybe_point);
  } else if (!point || !comma) {
    ++(point ? evidence_.point : evidence_.comma);
  }
  return true;
}

void ColumnProfile::add(std::string_view text, Missing missing) {
  if (missing == Missing::kYes) {
    ++missing_;
    if (!text.empty()) ++missing_fields_[std::string(text)];
    return;
  }
  if (missing == Missing::kWord) {
    ++words_[std::string(text)];
    return;
  }
  ++values_;
  if (!add_number(text) && looks_like_date(text)) ++dates_;
  const auto found = counts_.find(text);
  if (found != counts_.end()) {
    ++found->second;
    repeated_ = true;
  } else if (counts_.size() < kMostCounted) {
    counts_.emplace(text, 1);
  } else {
    many_ = true;
  }
}

DecimalEvidence ColumnProfile::evidence() const { return evidence_; }

std::string ColumnProfile::unit(bool decimal_comma) const {
  const size_t mark = decimal_comma ? 1 : 0;
  const auto most = std::ranges::max_element(
      units_, {}, [&](const auto& unit) { return unit.second[mark].count; });
  if (most == units_.end() || most->second[mark].count < plain_[mark].count) return "";
  return most->first;
}

void ColumnProfile::settle(const formats::NumberFormat& format) {
  format_ = format;
  const size_t mark = format.decimal_comma ? 1 : 0;
  Numbers all = plain_[mark];
  if (const auto unit = units_.find(format.unit); unit != units_.end()) {
    with_unit_ = unit->second[mark].count;
    all.add(unit->second[mark]);
  }
  numbers_ = all.count;
  whole_ = all.whole;
  least_ = all.least;
  most_ = all.most;
  fit_ = all.fit;
  // A missing-value word is a text among texts. Alone it says nothing.
  const bool texts = !is_numeric() && (values_ > 0 || missing_ > 0 || words_.size() > 1);
  for (const auto& [word, count] : words_) {
    if (texts) {
      values_ += count;
      counts_[word] += count;
    } else {
      missing_ += count;
      missing_fields_[word] += count;
    }
  }
  if (!texts) words_.clear();
}

std::vector<std::string> ColumnProfile::mixed_units() const {
  std::vector<std::string> names;
  int64_t numbers = plain_[format_.decimal_comma ? 1 : 0].count;
  for (const auto& [unit, of] : units_) {
    numbers += of[format_.decimal_comma ? 1 : 0].count;
    names.push_back(unit);
  }
  const bool are = !is_numeric() && names.size() > 1 && numbers * 20 >= values_ * 19;
  return are ? names : std::vector<std::string>();
}

bool ColumnProfile::is_numeric() const {
  return numbers_ > 0 && (numbers_ == values_ || (numbers_ * 20 >= values_ * 19 && numbers_ >= 40));
}

std::vector<std::pair<std::string, int64_t>> ColumnProfile::texts() const {
  std::vector<std::pair<std::string, int64_t>> all(counts_.begin(), counts_.end());
  std::ranges::sort(all, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return all;
}

std::map<double, std::string> ColumnProfile::numbers() const {
  std::map<double, std::string> all;
  for (const auto& [text, count] : counts_) {
    const auto number = formats::number_of(text, format_);
    if (!number) continue;
    const auto [at, added] = all.emplace(*number, text);
    // Between "1" and "1.0" it keeps the shorter, whatever the order of the rows.
    if (!added && (text.size() < at->second.size() ||
                   (text.size() == at->second.size() && text < at->second)))
      at->second = text;
  }
  return all;
}

}  // namespace muster::app
