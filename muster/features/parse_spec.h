// The content of files for feature columns: specifications for ExampleParser, and columns of CSV.
// Thread safety: pure functions; options are values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/data/csv.h"
#include "muster/data/example.h"
#include "muster/features/feature_column.h"
#include "muster/features/weight_column.h"

namespace muster::inline v0_1::feature_column {

// Returns the features that the columns read: a FixedLenFeature for a numeric_column(), a
// VarLenFeature for categories and their weights. Throws InvalidArgument if two columns read one
// key differently.
MUSTER_EXPORT data::FeatureSpec make_parse_example_spec(const std::vector<FeatureColumn>& columns);

// Options of classifier_parse_example_spec().
struct ClassifierSpecOptions {
  data::FeatureDType label_dtype = kInt64;
  std::optional<Value> label_default{};  // unset: an example without a label is an error
  // Weights of the examples: a key is read as float32 [1], a numeric_column() as usual.
  WeightColumn weight_column{};
};
// The same with the label, [1], and weights. Throws InvalidArgument if a column reads `label_key`,
// or reads the key of weight_column differently.
MUSTER_EXPORT data::FeatureSpec classifier_parse_example_spec(
    const std::vector<FeatureColumn>& columns, const std::string& label_key,
    const ClassifierSpecOptions& options = {});

// Options of regressor_parse_example_spec().
struct RegressorSpecOptions {
  data::FeatureDType label_dtype = kFloat32;
  std::optional<Value> label_default{};
  int64_t label_dimension = 1;  // the label is [label_dimension]
  WeightColumn weight_column{};
};
// As classifier_parse_example_spec(). Throws InvalidArgument also for label_dimension < 1.
MUSTER_EXPORT data::FeatureSpec regressor_parse_example_spec(
    const std::vector<FeatureColumn>& columns, const std::string& label_key,
    const RegressorSpecOptions& options = {});

// Returns the columns of a CSV file that these columns read, for CsvOptions::columns. A missing
// text is "", a missing integer category -1, and a missing number the default_value of its
// numeric_column(), or an error. Throws as make_parse_example_spec() does, and InvalidArgument for
// a numeric_column() of more than one number.
MUSTER_EXPORT std::vector<data::CsvColumn> csv_columns(const std::vector<FeatureColumn>& columns);
// Returns options of data::csv_format() for files with these columns and the label, which becomes
// CsvOptions::label: csv_options(columns, {"price"}) for numbers, {"kind", CsvKind::kString} for
// texts. Throws as csv_columns() does, and InvalidArgument for a label without a name, or one that
// a column reads.
MUSTER_EXPORT data::CsvOptions csv_options(const std::vector<FeatureColumn>& columns,
                                           data::CsvColumn label);

}  // namespace muster::inline v0_1::feature_column
