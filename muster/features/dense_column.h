// Columns of numbers, which DenseFeatures joins to the input of a model: numbers as they are, and
// categories as vectors. Thread safety: pure functions; options are values, and a normalizer_fn is
// called from threads of the pipeline.
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
  // What stands in for the feature where an example lacks it: one number, or as many as `shape`
  // has. Empty: it is an error. For parsing alone.
  std::vector<double> default_value{};
  DType dtype = kFloat32;  // of the feature; integers too
  // Is called with the numbers, [batch, shape...], and gives as many, which become float32:
  // with float64 where the feature holds doubles or integers of 32 or 64 bits, so that no digit of
  // a date or an identifier is lost before, and else with float32.
  std::function<Tensor(const Tensor&)> normalizer_fn{};
};

// Takes numbers [batch, shape...] as float32; a warning tells of whole numbers that this rounds.
// Name: key. Throws InvalidArgument for an empty key, a
// shape that is empty or has sizes below 1, a default_value of another size, or with fractions for
// a dtype of integers, and a dtype that is not a number's.
MUSTER_EXPORT FeatureColumn numeric_column(const std::string& key,
                                           NumericColumnOptions options = {});

// Puts numbers into buckets, integers and doubles without rounding them: below boundaries[0] is
// bucket 0, boundaries[i - 1] up to below boundaries[i] bucket i. Each number of an example is one
// of boundaries.size() + 1 ids of its own, or as many numbers, of which one is 1. Name:
// "<source>_bucketized". Throws InvalidArgument for a source that is no numeric_column() with a
// shape of one axis, and boundaries that are empty, no numbers or do not ascend strictly.
MUSTER_EXPORT FeatureColumn bucketized_column(const FeatureColumn& source,
                                              const std::vector<double>& boundaries);

// Gives the count of each id in an example, or the sum of its weights: [num_buckets]. Name:
// "<categorical>_indicator". Throws InvalidArgument for a column that is not categorical.
MUSTER_EXPORT FeatureColumn indicator_column(const FeatureColumn& categorical);

// Options of embedding_column().
struct EmbeddingColumnOptions {
  Combiner combiner = Combiner::kMean;
  Initializer initializer{};  // unset: truncated_normal(0, 1 / sqrt(dimension))
  // A checkpoint and the name of a tensor in it, which the table begins with in place of the
  // initializer; both or none.
  std::string ckpt_to_load_from{};
  std::string tensor_name_in_ckpt{};
  // Rows that are longer (by the L2 norm) are shortened to it before they are combined.
  std::optional<double> max_norm{};
  bool trainable = true;
};

// Learns a vector for each id, [dimension], and combines those of an example. Without an id it is
// 0. Unless the combiner is kSum, ids whose weight is 0 or less do not count. A step updates the
// rows that its ids name, and no other. Name: "<categorical>_embedding". Throws InvalidArgument for
// a column that is not categorical, dimension < 1, max_norm that is not above 0, and one half of
// ckpt_to_load_from and tensor_name_in_ckpt.
MUSTER_EXPORT FeatureColumn embedding_column(const FeatureColumn& categorical, int64_t dimension,
                                             const EmbeddingColumnOptions& options = {});

// Options of shared_embeddings(); the fields mean what they do for embedding_column().
struct SharedEmbeddingsOptions {
  Combiner combiner = Combiner::kMean;
  Initializer initializer{};
  // Names the table; empty: the names of the columns, sorted and joined by "_", and
  // "_shared_embedding".
  std::string shared_embedding_collection_name{};
  std::string ckpt_to_load_from{};
  std::string tensor_name_in_ckpt{};
  std::optional<double> max_norm{};
  bool trainable = true;
};

// Gives a column for each of these, in their order, which learn one table in the layer they are
// given to. Names: "<categorical>_shared_embedding". Throws InvalidArgument as embedding_column()
// does, for no columns at all, and for columns whose num_buckets() differ.
MUSTER_EXPORT std::vector<FeatureColumn> shared_embeddings(
    const std::vector<FeatureColumn>& categorical_columns, int64_t dimension,
    const SharedEmbeddingsOptions& options = {});

}  // namespace muster::inline v0_1::feature_column
