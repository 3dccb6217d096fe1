// Explains a linear model: a weight for each value of each column. It reads LinearClassifier(),
// LinearRegressor(), LinearEstimator() and the linear part of DNNLinearCombined*(). Thread safety:
// a pure function, except for the files it reads.
//
//   std::cout << explain(model, {age_buckets, job, age_x_job}).to_table();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/explanation.h"
#include "muster/features/feature_column.h"
#include "muster/train/input_fn.h"

namespace muster::inline v0_1 {

// The column name in the row of the bias.
inline constexpr const char* kBiasRow = "(bias)";

// Options of explain().
struct ExplainOptions {
  // Features as the columns read them, before resolve(): rows of hash buckets and crosses then list
  // the values of this data in them, "bucket 7: Paris, Rome". It is read once, from beginning to
  // end.
  InputFn data{};
  int64_t most_values = 3;  // values listed for a bucket, the most frequent ones; at least 1
  // The names of the classes, in the order of their numbers; empty: "0", "1", ...
  std::vector<std::string> classes{};
};

// Reads the latest checkpoint. A row has a column, one of its values as named by
// FeatureColumn::value_names(), the class if there are more than two, and the "weight", which is
// what the value adds to the logit; for a column of numbers it is multiplied by the number. The row
// of the bias is called kBiasRow. Rows are sorted by absolute weight, the largest first; equal rows
// keep the order of columns and values.
//
// Throws NotFound if the model was not trained; InvalidArgument without columns, for a column that
// the model does not have (with those it has) or that has another number of values than in
// training, for a wrong number of classes, for most_values < 1, and for data that lacks a feature
// of a column.
MUSTER_EXPORT Explanation explain(const Estimator& estimator,
                                  const std::vector<FeatureColumn>& columns,
                                  const ExplainOptions& options = {});

}  // namespace muster::inline v0_1
