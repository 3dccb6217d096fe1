// Columns of numbers, which DenseFeatures concatenates to the input of a model: numbers themselves,
// and categories as vectors. Thread safety: pure functions; options are values, and threads of the
// pipeline call a normalizer_fn.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/features/combiner.h"
#include "muster/features/feature_column.h"
#include "muster/layers/initializers.h"

namespace muster::inline v0_1::feature_column {

// Options of numeric_column().
struct NumericColumnOptions {
  Shape shape = {1};  // of one example
  // The value of the feature for an example without it: one number, or as many as `shape` has.
  // Empty: a missing feature is an error. Only for parsing.
  std::vector<double> default_value{};
  DType dtype = kFloat32;  // of the feature; integers too
  // Called with the numbers, [batch, shape...], and returns as many, which become float32. The
  // argument is float64 if the feature holds doubles or integers of 32 or 64 bits, so that no digit
  // of a date or an identifier is lost, else float32.
  std::function<Tensor(const Tensor&)> normalizer_fn{};
};

// Converts numbers [batch, shape...] to float32; a warning tells if this rounds whole numbers.
// Name: key. Throws InvalidArgument for an empty key, a shape that is empty or has sizes below 1, a
// default_value of another size or with fractions for an integer dtype, and a dtype that is not a
// number's.
MUSTER_EXPORT FeatureColumn numeric_column(const std::string& key,
                                           NumericColumnOptions options = {});

// Puts numbers into buckets, integers and doubles without rounding: values below boundaries[0] are
// in bucket 0, values from boundaries[i - 1] up to below boundaries[i] in bucket i. Each number of
// an example has its own boundaries.size() + 1 ids as a categorical column, or as many numbers, one
// of which is 1, as a dense column. Name: "<source>_bucketized". Throws InvalidArgument for a
// source that is not a numeric_column() with a one-axis shape, and for boundaries that are empty,
// not finite or not strictly ascending.
MUSTER_EXPORT FeatureColumn bucketized_column(const FeatureColumn& source,
                                              const std::vector<double>& boundaries);

// Returns the count of each id in an example, or the sum of its weights: [num_buckets]. Name:
// "<categorical>_indicator". Throws InvalidArgument for a column that is not categorical.
MUSTER_EXPORT FeatureColumn indicator_column(const FeatureColumn& categorical);

// Options of embedding_column().
struct EmbeddingColumnOptions {
  Combiner combiner = Combiner::kMean;
  Initializer initializer{};  // unset: truncated_normal(0, 1 / sqrt(dimension))
  // A checkpoint and the name of a tensor in it, the initial value of the table instead of the
  // initializer; set both or none.
  std::string ckpt_to_load_from{};
  std::string tensor_name_in_ckpt{};
  // Rows with a larger L2 norm are scaled down to it before they are combined.
  std::optional<double> max_norm{};
  bool trainable = true;
};

// Learns a vector for each id, [dimension], and combines those of an example; without ids the
// result is 0. Unless the combiner is kSum, ids with a weight of 0 or less are ignored. A step
// updates only the rows of its ids. Name: "<categorical>_embedding". Throws InvalidArgument for a
// column that is not categorical, dimension < 1, a max_norm that is not above 0, and if only one of
// ckpt_to_load_from and tensor_name_in_ckpt is set.
MUSTER_EXPORT FeatureColumn embedding_column(const FeatureColumn& categorical, int64_t dimension,
                                             const EmbeddingColumnOptions& options = {});

// Options of shared_embeddings(). Fields have the same meaning as for embedding_column().
struct SharedEmbeddingsOptions {
  Combiner combiner = Combiner::kMean;
  Initializer initializer{};
  // The name of the table; empty: the names of the columns, sorted and joined by "_", and
  // "_shared_embedding".
  std::string shared_embedding_collection_name{};
  std::string ckpt_to_load_from{};
  std::string tensor_name_in_ckpt{};
  std::optional<double> max_norm{};
  bool trainable = true;
};

// Returns a column for each of these, in order; they share one table in the layer that uses them.
// Names: "<categorical>_shared_embedding". Throws InvalidArgument as embedding_column() does,
// without columns, and for columns with different num_buckets().
MUSTER_EXPORT std::vector<FeatureColumn> shared_embeddings(
    const std::vector<FeatureColumn>& categorical_columns, int64_t dimension,
    const SharedEmbeddingsOptions& options = {});

}  // namespace muster::inline v0_1::feature_column
