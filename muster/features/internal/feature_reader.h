// Reads the features of a batch for columns. Thread safety: reads an element, which must outlive
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "muster/data/example.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::feature_column::internal {

// Values of categories: Strings or integers of one or two axes. What is empty was never there: "",
// -1, and whatever is after the length of its row.
class CategoryValues {
 public:
  int64_t rows() const { return rows_; }
  int64_t width() const { return width_; }
  int64_t size() const { return rows_ * width_; }
  bool is_strings() const { return texts_ != nullptr; }
  // Cell i, counted through the rows. REQUIRES: it is of this kind.
  std::string_view text(int64_t i) const { return (*texts_)[i]; }
  int64_t number(int64_t i) const { return numbers_.data_ptr<int64_t>()[i]; }
  bool present(int64_t i) const;
  // Whether the lengths of rows say what is there, and not the values.
  bool has_lengths() const { return lengths_.defined(); }
  const Tensor& lengths() const { return lengths_; }  // int64 [rows]

 private:
  friend class FeatureReader;
  int64_t rows_ = 0;
  int64_t width_ = 0;
  const Strings* texts_ = nullptr;
  Tensor numbers_;  // int64, contiguous, on the CPU
  Tensor lengths_;
};

// Gives FarmHash's Fingerprint64 of cell i; an integer is hashed as its decimal digits.
uint64_t fingerprint_of(const CategoryValues& values, int64_t i);

// Gives cell i as a text: an integer as its decimal digits.
std::string text_of(const CategoryValues& values, int64_t i);

class FeatureReader {
 public:
  // Throws InvalidArgument for an element that is not a dict.
  explicit FeatureReader(const Element& features);

  // Gives nullptr when there is no value of that name.
  const Value* find(const std::string& key) const;
  // The feature of a column's key. Throws InvalidArgument that lists the features there are, and
  // for a value without rows.
  const Value& feature(const std::string& column, const std::string& key) const;
  // The feature as categories. Throws InvalidArgument for more axes, and for another dtype than the
  // column's: kString, or one of integers.
  CategoryValues categories(const std::string& column, const std::string& key,
                            const data::FeatureDType& dtype) const;
  // The same for a key without a given dtype.
  CategoryValues categories(const std::string& column, const std::string& key) const;
  // The numbers of rows of VarLenFeatures, int64 [rows]; undefined where it is none. Throws
  // InvalidArgument for lengths that are not so many, or not from 0 to `width`.
  Tensor row_lengths(const std::string& column, const std::string& key, int64_t rows,
                     int64_t width) const;

 private:
  const Element& element_;
  std::map<std::string_view, size_t> leaves_;  // the place in values()
};

// "string", "int64", ...
std::string dtype_name(const data::FeatureDType& dtype);
bool is_string(const data::FeatureDType& dtype);
// Throws InvalidArgument "<function> of 'city': dtype is float32" for others than kString and
// integers.
void check_category_dtype(const std::string& function, const std::string& key,
                          const data::FeatureDType& dtype);
// The same for dtypes of numbers: floats and integers.
void check_number_dtype(const std::string& function, const std::string& key, DType dtype);

}  // namespace muster::inline v0_1::feature_column::internal
