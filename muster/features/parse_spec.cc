#include "muster/features/parse_spec.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/features/internal/column.h"
#include "muster/features/internal/feature_specs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column {
namespace {

[[noreturn]] void refuse_label(const std::string& function, const std::string& label_key) {
  throw invalid_argument(
      fmt::format("{}: the label '{}' is a feature too", function, label_key),
      "a model that is given the label learns nothing else; give them keys of their own");
}

void check_label(const data::FeatureSpec& spec, const std::string& function,
                 const std::string& label_key) {
  internal::check_key(function, label_key);
  if (spec.contains(label_key)) refuse_label(function, label_key);
}

// Adds the label and the weights of the examples.
data::FeatureSpec with_label(const std::vector<FeatureColumn>& columns, const std::string& function,
                             const std::string& label_key, data::FixedLenFeature label,
                             const WeightColumn& weight_column) {
  data::FeatureSpec spec = make_parse_example_spec(columns);
  check_label(spec, function, label_key);
  if (label_key == weight_column.key()) refuse_label(function, label_key);
  spec.emplace(label_key, std::move(label));
  if (weight_column.column()) {
    weight_column.column()->impl().source().add_features(spec);
  } else if (!weight_column.empty()) {
    internal::add_feature(spec, function, weight_column.key(),
                          data::FixedLenFeature{.shape = {1}, .dtype = kFloat32});
  }
  return spec;
}

data::CsvKind csv_kind(const std::string& key, const data::FeatureDType& dtype) {
  const DType* numbers = std::get_if<DType>(&dtype);
  if (numbers == nullptr) return data::CsvKind::kString;
  if (*numbers == kFloat32) return data::CsvKind::kFloat32;
  if (*numbers == kFloat64) return data::CsvKind::kFloat64;
  if (at::isIntegralType(*numbers, /*includeBool=*/false)) return data::CsvKind::kInt64;
  throw invalid_argument(fmt::format("csv_columns: the dtype of the feature '{}' is {}", key,
                                     muster::dtype_name(*numbers)),
                         "CSV files hold float32, float64, int64 and strings");
}

data::CsvColumn csv_column(const std::string& key, const data::FixedLenFeature& feature) {
  data::CsvColumn column{.name = key, .kind = csv_kind(key, feature.dtype), .missing = {}};
  if (c10::multiply_integers(feature.shape) != 1) {
    throw invalid_argument(
        fmt::format("csv_columns: the feature '{}' has the shape {}", key, describe(feature.shape)),
        "a column of a CSV file has one number in each row");
  }
  if (feature.default_value) {
    const Tensor number = feature.default_value->tensor().flatten()[0];
    if (column.kind == data::CsvKind::kInt64) {
      column.missing = number.item<int64_t>();
    } else {
      column.missing = number.item<double>();
    }
  }
  return column;
}

data::CsvColumn csv_column(const std::string& key, const data::VarLenFeature& feature) {
  data::CsvColumn column{.name = key, .kind = csv_kind(key, feature.dtype), .missing = {}};
  switch (column.kind) {
    case data::CsvKind::kString:
      column.missing = std::string();
      break;
    case data::CsvKind::kInt64:
      column.missing = int64_t{-1};
      break;
    default:  // a weight; 0 means that its value is missing
      column.missing = 0.0;
  }
  return column;
}

data::CsvColumn csv_column(const std::string& key, const data::FixedLenSequenceFeature&) {
  throw internal_error("no column reads steps, and yet one does: " + key);
}

}  // namespace

data::FeatureSpec make_parse_example_spec(const std::vector<FeatureColumn>& columns) {
  data::FeatureSpec spec;
  for (const FeatureColumn& column : columns) column.impl().source().add_features(spec);
  return spec;
}

data::FeatureSpec classifier_parse_example_spec(const std::vector<FeatureColumn>& columns,
                                                const std::string& label_key,
                                                const ClassifierSpecOptions& options) {
  return with_label(
      columns, "classifier_parse_example_spec", label_key,
      {.shape = {1}, .dtype = options.label_dtype, .default_value = options.label_default},
      options.weight_column);
}

data::FeatureSpec regressor_parse_example_spec(const std::vector<FeatureColumn>& columns,
                                               const std::string& label_key,
                                               const RegressorSpecOptions& options) {
  constexpr const char* kFunction = "regressor_parse_example_spec";
  internal::check_at_least(kFunction, label_key, "label_dimension", options.label_dimension, 1);
  return with_label(columns, kFunction, label_key,
                    {.shape = {options.label_dimension},
                     .dtype = options.label_dtype,
                     .default_value = options.label_default},
                    options.weight_column);
}

std::vector<data::CsvColumn> csv_columns(const std::vector<FeatureColumn>& columns) {
  std::vector<data::CsvColumn> all;
  for (const auto& [key, feature] : make_parse_example_spec(columns)) {
    all.push_back(
        std::visit([&key = key](const auto& each) { return csv_column(key, each); }, feature));
  }
  return all;
}

data::CsvOptions csv_options(const std::vector<FeatureColumn>& columns, data::CsvColumn label) {
  check_label(make_parse_example_spec(columns), "csv_options", label.name);
  data::CsvOptions options{.columns = csv_columns(columns), .label = label.name};
  options.columns.push_back(std::move(label));
  return options;
}

}  // namespace muster::inline v0_1::feature_column
