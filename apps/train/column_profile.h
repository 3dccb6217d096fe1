// What the values of a column look like, one row after another. Thread safety: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "apps/train/missing_words.h"
#include "muster/base/float_fit.h"
#include "muster/formats/written_number.h"

namespace muster::app {

// What the numbers of a column say of the mark of their fractions.
struct DecimalEvidence {
  int64_t point = 0, comma = 0;              // "3.14" and "1,234.5"; "3,14" and "1.234,5"
  int64_t maybe_point = 0, maybe_comma = 0;  // "1.234" and "1,234", which may be 1234 as well
};

// First every value is added, then settle() says how numbers are written; what is asked before
// that is told of the values alone.
class ColumnProfile {
 public:
  // A field without the blanks around it.
  void add(std::string_view text, Missing missing);

  DecimalEvidence evidence() const;
  // The unit that is next to half of the numbers at least; "" without one.
  std::string unit(bool decimal_comma) const;
  void settle(const formats::NumberFormat& format);

  const formats::NumberFormat& format() const { return format_; }
  int64_t rows() const { return missing_ + values_; }
  int64_t missing() const { return missing_; }
  int64_t values() const { return values_; }  // those that are there
  // Whether at least 19 of 20 values are numbers, of which there are several; the others are taken
  // for missing.
  bool is_numeric() const;
  // Values of a numeric column that are none.
  int64_t not_numbers() const { return values_ - numbers_; }
  bool all_whole() const { return numbers_ == whole_; }
  // Whether float32 tells the numbers apart.
  bool fits_float() const { return fit_.fits(); }
  double least() const { return least_; }
  double most() const { return most_; }
  // How many numbers have the unit.
  int64_t with_unit() const { return with_unit_; }
  // The units of a column of texts that are numbers of several units; else none.
  std::vector<std::string> mixed_units() const;
  bool are_dates() const { return values_ > 0 && dates_ * 20 >= values_ * 19; }
  // Different values; where there are more than are counted, what was counted, and are_many().
  int64_t different() const { return static_cast<int64_t>(counts_.size()); }
  bool are_many() const { return many_; }
  // Whether no value is there twice, words for what is missing aside.
  bool unique() const { return !repeated_; }
  // Texts with how often, the most frequent first; of one count by text.
  std::vector<std::pair<std::string, int64_t>> texts() const;
  // The different numbers in ascending order, each as it was written first.
  std::map<double, std::string> numbers() const;
  // Fields that are not empty and are taken for missing, and those of the words that are texts
  // here, with how often.
  const std::map<std::string, int64_t>& missing_fields() const { return missing_fields_; }
  const std::map<std::string, int64_t>& words() const { return words_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  // Numbers as a mark of fractions has them.
  struct Numbers {
    int64_t count = 0, whole = 0;
    double least = 0, most = 0;
    FloatFit fit = {};

    void add(double number);
    void add(const Numbers& other);
  };
  // The numbers with a unit, with a decimal point and with a decimal comma.
  using ByMark = std::array<Numbers, 2>;

  // False where the text is not a number.
  bool add_number(std::string_view text);

  DecimalEvidence evidence_;
  std::map<std::string, ByMark, std::less<>> units_;
  ByMark plain_ = {};  // without a unit

  formats::NumberFormat format_;
  int64_t missing_ = 0, values_ = 0, dates_ = 0;
  int64_t numbers_ = 0, whole_ = 0, with_unit_ = 0;
  double least_ = 0, most_ = 0;
  FloatFit fit_;
  bool many_ = false, repeated_ = false;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> counts_;
  std::map<std::string, int64_t> missing_fields_, words_;
};

}  // namespace muster::app
