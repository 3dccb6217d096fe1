#include "apps/train/column_profile.h"

#include <algorithm>
#include <cmath>

#include "apps/train/table_file.h"

namespace muster::app {
namespace {

// More different values are not counted: they are no categories.
constexpr size_t kMostCounted = 50000;

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

void ColumnProfile::add(std::string_view text) {
  if (text.empty()) {
    ++missing_;
    return;
  }
  ++values_;
  if (const auto number = number_of(text, decimal_comma_)) {
    least_ = numbers_ == 0 ? *number : std::min(least_, *number);
    most_ = numbers_ == 0 ? *number : std::max(most_, *number);
    ++numbers_;
    if (*number == std::trunc(*number)) ++whole_;
  } else if (looks_like_date(text)) {
    ++dates_;
  }
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
    const auto number = number_of(text, decimal_comma_);
    if (!number) continue;
    const auto [at, added] = all.emplace(*number, text);
    // Of "1" and "1.0" the shorter, whatever the order of the rows.
    if (!added && (text.size() < at->second.size() ||
                   (text.size() == at->second.size() && text < at->second)))
      at->second = text;
  }
  return all;
}

}  // namespace muster::app
