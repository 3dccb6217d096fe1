#include "muster/features/internal/feature_reader.h"

#include <fmt/format.h>

#include <vector>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/unknown_name.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column::internal {

bool CategoryValues::present(int64_t i) const {
  if (lengths_.defined()) return i % width_ < lengths_.data_ptr<int64_t>()[i / width_];
  return is_strings() ? !text(i).empty() : number(i) != -1;
}

uint64_t fingerprint_of(const CategoryValues& values, int64_t i) {
  if (values.is_strings()) return fingerprint64(values.text(i));
  const fmt::format_int digits(values.number(i));
  return fingerprint64({digits.data(), digits.size()});
}

std::string text_of(const CategoryValues& values, int64_t i) {
  return values.is_strings() ? std::string(values.text(i)) : std::to_string(values.number(i));
}

FeatureReader::FeatureReader(const Element& features) : element_(features) {
  const Structure& structure = features.structure();
  if (structure.kind != Structure::Kind::kDict) {
    throw invalid_argument(
        "feature columns find features by their names, and these have none: " + features.describe(),
        "give a dict of features, or a tuple that begins with one");
  }
  size_t leaf = 0;
  for (size_t i = 0; i < structure.children.size(); ++i) {
    if (structure.children[i].kind == Structure::Kind::kLeaf) {
      leaves_.emplace(structure.keys[i], leaf);
    }
    leaf += static_cast<size_t>(structure.children[i].leaves());
  }
}

const Value* FeatureReader::find(const std::string& key) const {
  const auto found = leaves_.find(key);
  return found == leaves_.end() ? nullptr : &element_.values()[found->second];
}

const Value& FeatureReader::feature(const std::string& column, const std::string& key) const {
  const Value* value = find(key);
  if (value == nullptr) {
    std::vector<std::string> known;
    for (const auto& [name, leaf] : leaves_) known.emplace_back(name);
    throw unknown_name(fmt::format("the input of the column '{}'", column), "feature", key, known,
                       "add it to the elements of the input function, or remove the column");
  }
  if (value->is_tensor() ? !value->tensor().defined() || value->tensor().dim() == 0
                         : value->strings().shape().empty()) {
    throw invalid_argument(
        fmt::format("the column '{}': its feature '{}' is {}", column, key, value->describe()),
        "columns read batches, [batch, ...]; call batch() first");
  }
  return *value;
}

Tensor FeatureReader::row_lengths(const std::string& column, const std::string& key, int64_t rows,
                                  int64_t width) const {
  const Value* value = find(key + data::kRowLengths);
  if (value == nullptr) return {};
  if (!value->is_tensor() || value->tensor().scalar_type() != kInt64 ||
      value->tensor().sizes() != at::IntArrayRef({rows})) {
    throw invalid_argument(
        fmt::format("the column '{}': the lengths '{}{}' are {}, and there are {} rows", column,
                    key, data::kRowLengths, value->describe(), rows),
        "they are int64 [rows], as ExampleParser gives them for a VarLenFeature");
  }
  Tensor lengths = value->tensor().cpu().contiguous();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t length = lengths.data_ptr<int64_t>()[row];
    if (length >= 0 && length <= width) continue;
    throw invalid_argument(
        fmt::format("the column '{}': the lengths '{}{}' say {} in row {}, and a row has {} values",
                    column, key, data::kRowLengths, length, row, width),
        "a length goes from 0 to the width of the values");
  }
  return lengths;
}

CategoryValues FeatureReader::categories(const std::string& column, const std::string& key) const {
  const Value& value = feature(column, key);
  CategoryValues read;
  Shape shape;
  bool good = true;
  if (value.is_strings()) {
    read.texts_ = &value.strings();
    shape = read.texts_->shape();
  } else {
    const Tensor& tensor = value.tensor();
    shape = tensor.sizes().vec();
    good = at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
    if (good) read.numbers_ = tensor.detach().to(at::kCPU, kInt64).contiguous();
  }
  if (!good || shape.size() > 2) {
    throw invalid_argument(
        fmt::format("the column '{}': its feature '{}' is {}", column, key, value.describe()),
        "categories are strings or integers, [batch] or [batch, values]");
  }
  read.rows_ = shape[0];
  read.width_ = shape.size() == 2 ? shape[1] : 1;
  read.lengths_ = row_lengths(column, key, read.rows_, read.width_);
  return read;
}

CategoryValues FeatureReader::categories(const std::string& column, const std::string& key,
                                         const data::FeatureDType& dtype) const {
  const Value& value = feature(column, key);
  const bool integers = value.is_tensor() && at::isIntegralType(value.tensor().scalar_type(),
                                                                /*includeBool=*/false);
  if (is_string(dtype) ? !value.is_strings() : !integers) {
    throw invalid_argument(
        fmt::format("the column '{}' takes {}, and its feature '{}' is {}", column,
                    is_string(dtype) ? "strings" : "integers", key, value.describe()),
        "give the column the dtype of the feature: kString, or kInt64 for integers");
  }
  return categories(column, key);
}

std::string dtype_name(const data::FeatureDType& dtype) {
  const DType* numbers = std::get_if<DType>(&dtype);
  return numbers == nullptr ? "string" : muster::dtype_name(*numbers);
}

bool is_string(const data::FeatureDType& dtype) {
  return std::holds_alternative<data::StringDType>(dtype);
}

void check_category_dtype(const std::string& function, const std::string& key,
                          const data::FeatureDType& dtype) {
  if (is_string(dtype) || at::isIntegralType(std::get<DType>(dtype), /*includeBool=*/false)) return;
  throw invalid_argument(fmt::format("{} of '{}': dtype is {}", function, key, dtype_name(dtype)),
                         "dtype is kString, or one of integers, as kInt64");
}

void check_number_dtype(const std::string& function, const std::string& key, DType dtype) {
  if (at::isIntegralType(dtype, /*includeBool=*/false) || at::isFloatingType(dtype)) return;
  throw invalid_argument(
      fmt::format("{} of '{}': dtype is {}", function, key, muster::dtype_name(dtype)),
      "dtype is one of floats or integers, as kFloat32");
}

}  // namespace muster::inline v0_1::feature_column::internal
