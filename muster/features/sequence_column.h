// Columns of features with one or several values in each step of a sequence. SequenceFeatures
// ("muster/features/sequence_features.h") takes them; put categories in an indicator_column() or an
// embedding_column(). Thread safety: pure functions; options are values, and threads of the
// pipeline call a normalizer_fn.
//
// A feature is [batch, steps], or [batch, steps, values] if a step has several; "" and -1 mean no
// category. Or it is the output of VarLenFeature, whose lengths tell how many values a row has. A
// sequence ends with the last step that has a value.
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
  double default_value = 0;  // of the steps after the end of a sequence
  DType dtype = kFloat32;    // of the feature; integers too
  // Called with the numbers, [batch, steps, shape...], like that of numeric_column().
  std::function<Tensor(const Tensor&)> normalizer_fn{};
};

// Converts numbers [batch, steps, shape...] to float32; or a VarLenFeature of them, one step after
// another. Name: key. Throws InvalidArgument for an empty key, a shape that is empty or has sizes
// below 1, and a dtype that is not a number's.
MUSTER_EXPORT FeatureColumn sequence_numeric_column(const std::string& key,
                                                    SequenceNumericOptions options = {});

// These read each step as the columns without "sequence_" read a row, with the same options and
// errors. They cannot be crossed and have no weights.
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
