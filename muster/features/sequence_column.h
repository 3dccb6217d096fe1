// Columns of features with a value, or several, in each step of a sequence. SequenceFeatures
// ("muster/features/sequence_features.h") takes them: categories in an indicator_column() or an
// embedding_column(). Thread safety: pure functions; options are values, and a normalizer_fn is
// called from threads of the pipeline.
//
// A feature is [batch, steps], or [batch, steps, values] where a step has several; "" and -1 stand
// for no category. Or it is what VarLenFeature gives, in which the lengths tell how many values a
// row has. A sequence ends with the last step that has a value.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "muster/base/export.h"
#include "muster/features/categorical_column.h"
#include "muster/features/feature_column.h"

namespace muster::inline v0_1::feature_column {

// Options of sequence_numeric_column().
struct SequenceNumericOptions {
  Shape shape = {1};         // of one step
  double default_value = 0;  // of the steps behind the end of a sequence
  DType dtype = kFloat32;    // of the feature; integers too
  // Is called with the numbers, [batch, steps, shape...], as that of numeric_column() is.
  std::function<Tensor(const Tensor&)> normalizer_fn{};
};

// Takes numbers [batch, steps, shape...] as float32, or a VarLenFeature of them, one step behind
// another. Name: key. Throws InvalidArgument for an empty key, a shape that is empty or has sizes
// below 1, and a dtype that is not a number's.
MUSTER_EXPORT FeatureColumn sequence_numeric_column(const std::string& key,
                                                    SequenceNumericOptions options = {});

// These read each step as the columns without "sequence_" read a row, take the same options, and
// throw the same. They are not crossed and have no weights.
MUSTER_EXPORT FeatureColumn sequence_categorical_column_with_hash_bucket(
    const std::string& key, int64_t hash_bucket_size, const HashBucketOptions& options = {});
MUSTER_EXPORT FeatureColumn sequence_categorical_column_with_vocabulary_list(
    const std::string& key, const Vocabulary& vocabulary_list,
    const VocabularyListOptions& options = {});
MUSTER_EXPORT FeatureColumn sequence_categorical_column_with_vocabulary_file(
    const std::string& key, const std::string& vocabulary_file,
    const VocabularyFileOptions& options = {});
MUSTER_EXPORT FeatureColumn sequence_categorical_column_with_identity(
    const std::string& key, int64_t num_buckets, const IdentityOptions& options = {});

}  // namespace muster::inline v0_1::feature_column
