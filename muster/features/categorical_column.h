// Columns of categories: each value of a feature becomes an id. A feature is Strings or integers
// [batch] or [batch, values], in which "" and -1 mean no value; or the output of VarLenFeature
// ("muster/data/example.h"), whose lengths tell how many values a row has. Ids of unknown values
// are -1, and are ignored. Thread safety: pure functions; options are values.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/base/export.h"
#include "muster/data/example.h"
#include "muster/features/feature_column.h"

namespace muster::inline v0_1::feature_column {

// Options of categorical_column_with_hash_bucket().
struct HashBucketOptions {
  data::FeatureDType dtype = data::kString;  // of the feature: kString, or an integer dtype
};

// Gives value v the id Fingerprint64(v) % hash_bucket_size, by FarmHash; integers are hashed as
// their decimal digits. Name: key. Throws InvalidArgument for an empty key, for hash_bucket_size <
// 1 and for another dtype.
MUSTER_EXPORT FeatureColumn categorical_column_with_hash_bucket(
    const std::string& key, int64_t hash_bucket_size, const HashBucketOptions& options = {});

// The values of a vocabulary, in the order of their ids: texts or integers.
class MUSTER_EXPORT Vocabulary {
 public:
  Vocabulary(std::vector<std::string> texts);            // NOLINT(google-explicit-constructor)
  Vocabulary(std::vector<int64_t> integers);             // NOLINT(google-explicit-constructor)
  Vocabulary(std::initializer_list<const char*> texts);  // NOLINT(google-explicit-constructor)
  Vocabulary(std::initializer_list<std::string> texts);  // NOLINT(google-explicit-constructor)
  Vocabulary(std::initializer_list<int> integers);       // NOLINT(google-explicit-constructor)
  Vocabulary(std::initializer_list<int64_t> integers);   // NOLINT(google-explicit-constructor)

  // Whether the values are texts.
  bool is_strings() const { return is_strings_; }
  // The values; integers as their decimal digits.
  const std::vector<std::string>& values() const { return values_; }

 private:
  bool is_strings_;
  std::vector<std::string> values_;
};

// Options of categorical_column_with_vocabulary_list().
struct VocabularyListOptions {
  std::optional<data::FeatureDType> dtype{};  // of the feature; unset: that of the list
  int64_t default_value = -1;                 // the id of a value that is not in the list; below 0:
                                              // none
  // If set, unknown values v have the ids size + Fingerprint64(v) % num_oov_buckets.
  int64_t num_oov_buckets = 0;
};

// Gives a value its index in the list. Name: key. Throws InvalidArgument for an empty list or a
// repeated value, a dtype other than the list's, default_value >= size, num_oov_buckets below 0,
// and both of them together.
MUSTER_EXPORT FeatureColumn
categorical_column_with_vocabulary_list(const std::string& key, const Vocabulary& vocabulary_list,
                                        const VocabularyListOptions& options = {});

// Options of categorical_column_with_vocabulary_file().
struct VocabularyFileOptions {
  std::optional<int64_t> vocabulary_size{};  // the number of lines to read; unset: all
  data::FeatureDType dtype = data::kString;  // of the feature: kString, or an integer dtype
  std::optional<int64_t> default_value{};    // as for a list; unset: -1
  int64_t num_oov_buckets = 0;
};

// Gives a value the number of its line in the file, from 0. The file is a path or URI, and is read
// immediately, as muster/formats/vocabulary_file.h describes (a byte-order mark is not part of the
// first line; a blank line keeps its id). Name: key. Throws as
// categorical_column_with_vocabulary_list() does, with line numbers; also NotFound for a missing
// file, and InvalidArgument for a file with fewer lines than vocabulary_size, or with lines that
// are not integers if dtype is an integer dtype.
MUSTER_EXPORT FeatureColumn
categorical_column_with_vocabulary_file(const std::string& key, const std::string& vocabulary_file,
                                        const VocabularyFileOptions& options = {});

// Options of categorical_column_with_identity().
struct IdentityOptions {
  // The id of values outside of 0 ... num_buckets - 1. Unset: negative values are ignored, and
  // resolve() throws InvalidArgument for values that are too large.
  std::optional<int64_t> default_value{};
};

// Uses integers as ids. Name: key. Throws InvalidArgument for num_buckets < 1, and for a
// default_value outside of 0 ... num_buckets - 1.
MUSTER_EXPORT FeatureColumn categorical_column_with_identity(const std::string& key,
                                                             int64_t num_buckets,
                                                             const IdentityOptions& options = {});

// Options of weighted_categorical_column().
struct WeightedOptions {
  DType dtype = kFloat32;  // of the weights; integers too
};

// Gives each id of `categorical` a weight, taken from another feature of the same shape. In a dense
// feature, a weight of 0 excludes the id. Name: "<categorical>_weighted_by_<key>". Throws
// InvalidArgument for a column that is not categorical or already has weights, and for a dtype that
// is not a number's.
MUSTER_EXPORT FeatureColumn weighted_categorical_column(const FeatureColumn& categorical,
                                                        const std::string& weight_feature_key,
                                                        const WeightedOptions& options = {});

// An argument of crossed_column(): a feature by its key, or a categorical column.
using CrossedKey = std::variant<std::string, FeatureColumn>;

// Options of crossed_column().
struct CrossedOptions {
  std::optional<uint64_t> hash_key{};  // start value of the hash; unset or 0: 0xDECAFCAFFE
};

// Gives each combination of the features' values the id hash % hash_bucket_size. A row has as many
// ids as the product of the numbers of its values; the last key's values change fastest. A crossed
// column among the keys is replaced by its own keys. All values of a dense feature count here, also
// "" and -1, and its key is ordered after those that are columns or have row_lengths, as in
// TensorFlow: so a feature that is a key must be dense, or have lengths, both in training and
// later. Name: the names of the keys, sorted and joined by "_X_". Throws InvalidArgument for fewer
// than two keys, for hash_bucket_size < 2, and for columns that are not categorical, have hash
// buckets (cross the key itself) or weights.
MUSTER_EXPORT FeatureColumn crossed_column(const std::vector<CrossedKey>& keys,
                                           int64_t hash_bucket_size,
                                           const CrossedOptions& options = {});

}  // namespace muster::inline v0_1::feature_column
