// What a linear model learned: a weight for each value of each column. It reads LinearClassifier(),
// LinearRegressor(), LinearEstimator() and the linear part of DNNLinearCombined*(). Thread safety:
// a pure function, but for the files it reads.
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

// The column of the row that holds the bias.
inline constexpr const char* kBiasRow = "(bias)";

// Options of explain().
struct ExplainOptions {
  // Features as the columns read them, before resolve(): rows of hash buckets and crosses then tell
  // the values of this data that fall into them, "bucket 7: Paris, Rome". Read once, from its
  // beginning to its end.
  InputFn data{};
  int64_t most_values = 3;  // of a bucket, the most frequent ones; at least 1
  // The names of the classes, in the order of their numbers; empty: "0", "1", ...
  std::vector<std::string> classes{};
};

// Reads the latest checkpoint. A row has a column, one of its values as
// FeatureColumn::value_names() calls it, the class where there are more than two, and the "weight":
// what the value adds to the logit, times the number for a column of numbers. The row of the bias
// is called kBiasRow. Sorted by size, the largest first; rows of one size stand in the order of the
// columns and their values.
//
// Throws NotFound where the model was not trained; InvalidArgument for no columns, a column that
// the model has not (with those it has), one that has another number of values than the model was
// trained with, classes that are not as many as the logits, most_values < 1, and data that lacks
// what a column reads.
MUSTER_EXPORT Explanation explain(const Estimator& estimator,
                                  const std::vector<FeatureColumn>& columns,
                                  const ExplainOptions& options = {});

}  // namespace muster::inline v0_1
