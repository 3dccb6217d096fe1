// Columns of categories: each value of a feature becomes an id. A feature is Strings or integers
// [batch] or [batch, values], in which "" and -1 stand for no value; or what VarLenFeature gives
// ("muster/data/example.h"), in which the lengths tell how many values a row has. Ids of unknown
// values are -1, and count for nothing. Thread safety: pure functions; options are values.
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
  data::FeatureDType dtype = data::kString;  // of the feature: kString, or one of integers
};

// Gives value v the id Fingerprint64(v) % hash_bucket_size, by FarmHash; integers are hashed as
// their decimal digits. Name: key. Throws InvalidArgument for an empty key, hash_bucket_size < 1
// and another dtype.
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

  // Whether they are texts.
  bool is_strings() const { return is_strings_; }
  // Integers as their decimal digits.
  const std::vector<std::string>& values() const { return values_; }

 private:
  bool is_strings_;
  std::vector<std::string> values_;
};

// Options of categorical_column_with_vocabulary_list().
struct VocabularyListOptions {
  std::optional<data::FeatureDType> dtype{};  // of the feature; unset: that of the list
  int64_t default_value = -1;                 // the id of what is not in the list; below 0: none
  // Unknown values v have the ids size + Fingerprint64(v) % num_oov_buckets instead.
  int64_t num_oov_buckets = 0;
};

// Gives a value its place in the list. Name: key. Throws InvalidArgument for a list that is empty
// or has a value twice, a dtype that is not the list's, default_value >= size,
// num_oov_buckets below 0, and both of them at once.
MUSTER_EXPORT FeatureColumn
categorical_column_with_vocabulary_list(const std::string& key, const Vocabulary& vocabulary_list,
                                        const VocabularyListOptions& options = {});

// Options of categorical_column_with_vocabulary_file().
struct VocabularyFileOptions {
  std::optional<int64_t> vocabulary_size{};  // the lines that are read; unset: all of them
  data::FeatureDType dtype = data::kString;  // of the feature: kString, or one of integers
  std::optional<int64_t> default_value{};    // as for a list; unset: -1
  int64_t num_oov_buckets = 0;
};

// Gives a value the number of its line in the file, from 0; the file is a path or URI, and is read
// at once, as muster/formats/vocabulary_file.h says (a byte-order mark is no part of the first
// line; a blank line keeps its id). Name: key. Throws as categorical_column_with_vocabulary_list()
// does, naming lines; also NotFound for a file that is not there, and InvalidArgument for one that
// has fewer lines than vocabulary_size, or lines that are no integers where dtype is one of
// integers.
MUSTER_EXPORT FeatureColumn
categorical_column_with_vocabulary_file(const std::string& key, const std::string& vocabulary_file,
                                        const VocabularyFileOptions& options = {});

// Options of categorical_column_with_identity().
struct IdentityOptions {
  // The id of values outside of 0 ... num_buckets - 1. Unset: negative ones count for nothing, and
  // one that is too large is an InvalidArgument of resolve().
  std::optional<int64_t> default_value{};
};

// Takes integers as ids. Name: key. Throws InvalidArgument for num_buckets < 1, and default_value
// outside of 0 ... num_buckets - 1.
MUSTER_EXPORT FeatureColumn categorical_column_with_identity(const std::string& key,
                                                             int64_t num_buckets,
                                                             const IdentityOptions& options = {});

// Options of weighted_categorical_column().
struct WeightedOptions {
  DType dtype = kFloat32;  // of the weights; integers too
};

// Gives the ids of `categorical` a weight each, those of another feature of the same shape. In one
// that is dense, 0 means that the id does not count. Name: "<categorical>_weighted_by_<key>".
// Throws InvalidArgument for a column that is not categorical or has weights, and for a dtype that
// is not a number's.
MUSTER_EXPORT FeatureColumn weighted_categorical_column(const FeatureColumn& categorical,
                                                        const std::string& weight_feature_key,
                                                        const WeightedOptions& options = {});

// What crossed_column() crosses: a feature by its key, or a categorical column.
using CrossedKey = std::variant<std::string, FeatureColumn>;

// Options of crossed_column().
struct CrossedOptions {
  std::optional<uint64_t> hash_key{};  // what the hash begins with; unset or 0: 0xDECAFCAFFE
};

// Gives each combination of the features' values a hash % hash_bucket_size as id: a row has as many
// as the product of the numbers of its values, the last key's changing fastest. A crossed column
// among the keys stands for its own keys. Values of a feature that is dense all count here, "" and
// -1 as well, and its key stands after those that are columns or have row_lengths, as in
// TensorFlow: so a feature that is a key is dense, or has lengths, in training and later alike.
// Name: the names of the keys, sorted and joined by "_X_". Throws InvalidArgument for fewer than
// two keys, hash_bucket_size < 2, and columns that are not categorical, have hash buckets (cross
// the key itself) or weights.
MUSTER_EXPORT FeatureColumn crossed_column(const std::vector<CrossedKey>& keys,
                                           int64_t hash_bucket_size,
                                           const CrossedOptions& options = {});

}  // namespace muster::inline v0_1::feature_column
