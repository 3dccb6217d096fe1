// Whether float32 distinguishes the numbers of a column. Identifiers, dates such as 20180131 and
// times in seconds are larger than 2^24, where float32 cannot represent every whole number: two
// neighbours become one number, and a model cannot distinguish them any more. Thread safety:
// values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace muster::inline v0_1 {

// Above it float32 rounds whole numbers.
inline constexpr double kLargestExactFloat = 16777216;  // 2^24

// Whether the number is that large, and becomes another one as float32.
inline bool is_lost_in_float(double number) {
  return std::abs(number) > kLargestExactFloat &&
         static_cast<double>(static_cast<float>(number)) != number;
}

// Looks at the numbers of a column, one after another. Missing or infinite values do not count.
class FloatFit {
 public:
  // Counts a number of the column.
  void add(double number) {
    if (!std::isfinite(number)) return;
    least_ = std::min(least_, number);
    most_ = std::max(most_, number);
    if (static_cast<double>(static_cast<float>(number)) == number) return;
    rounds_ = true;
    lost_ = lost_ || std::abs(number) > kLargestExactFloat;
  }
  // Adds the counts of the other.
  void merge(const FloatFit& other) {
    least_ = std::min(least_, other.least_);
    most_ = std::max(most_, other.most_);
    rounds_ = rounds_ || other.rounds_;
    lost_ = lost_ || other.lost_;
  }
  static constexpr int64_t kNumbers = 4;  // that store() writes
  // Writes the counts, so that replicas can exchange them.
  void store(double* numbers) const {
    numbers[0] = least_;
    numbers[1] = most_;
    numbers[2] = rounds_ ? 1 : 0;
    numbers[3] = lost_ ? 1 : 0;
  }
  // Reads the numbers that store() has written.
  static FloatFit load(const double* numbers) {
    FloatFit fit;
    fit.least_ = numbers[0];
    fit.most_ = numbers[1];
    fit.rounds_ = numbers[2] > 0;
    fit.lost_ = numbers[3] > 0;
    return fit;
  }
  // False if a number is lost, and where all lie so close to each other that float32 has a few
  // thousand places for them at most.
  bool fits() const {
    if (lost_) return false;
    if (!rounds_ || most_ == least_) return true;
    constexpr double kPlaces = 4096, kRelative = 1.0 / (1 << 23);  // from a float to the next
    return most_ - least_ >= kPlaces * kRelative * std::max(std::abs(least_), std::abs(most_));
  }

 private:
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = -std::numeric_limits<double>::infinity();
  bool rounds_ = false;  // some number is none of float32
  bool lost_ = false;    // and one of these is large
};

}  // namespace muster::inline v0_1
