// What the values of a column look like, one row after another. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace muster::app {

class ColumnProfile {
 public:
  explicit ColumnProfile(bool decimal_comma) : decimal_comma_(decimal_comma) {}

  // "" is a missing value.
  void add(std::string_view text);

  int64_t rows() const { return missing_ + values_; }
  int64_t missing() const { return missing_; }
  int64_t values() const { return values_; }  // those that are there
  // Whether at least 19 of 20 values are numbers, of which there are several; the others are taken
  // for missing.
  bool is_numeric() const;
  // Values of a numeric column that are none.
  int64_t not_numbers() const { return values_ - numbers_; }
  bool all_whole() const { return numbers_ == whole_; }
  double least() const { return least_; }
  double most() const { return most_; }
  bool are_dates() const { return values_ > 0 && dates_ * 20 >= values_ * 19; }
  // Different values; where there are more than are counted, what was counted, and are_many().
  int64_t different() const { return static_cast<int64_t>(counts_.size()); }
  bool are_many() const { return many_; }
  // Whether no value is there twice.
  bool unique() const { return !repeated_; }
  // Texts with how often, the most frequent first; of one count by text.
  std::vector<std::pair<std::string, int64_t>> texts() const;
  // The different numbers in ascending order, each as it was written first.
  std::map<double, std::string> numbers() const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  bool decimal_comma_;
  int64_t missing_ = 0, values_ = 0, numbers_ = 0, whole_ = 0, dates_ = 0;
  double least_ = 0, most_ = 0;
  bool many_ = false, repeated_ = false;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> counts_;
};

}  // namespace muster::app
