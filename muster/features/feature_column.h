// A feature column says how an entry of the input becomes numbers for a model, as in
// tf.feature_column. It is a description: in the input pipeline resolve()
// ("muster/features/resolve.h") reads texts and looks up ids; in the model DenseFeatures and
// LinearModel run the part that learns. The functions of "muster/features/dense_column.h",
// "muster/features/categorical_column.h" and "muster/features/sequence_column.h" make columns.
// Thread safety: immutable values; copies share the description.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

namespace feature_column::internal {
class Column;
}

class MUSTER_EXPORT FeatureColumn {
 public:
  explicit FeatureColumn(std::shared_ptr<const feature_column::internal::Column> impl);

  // TensorFlow's names: "age", "age_bucketized", "city_X_job", "city_embedding".
  const std::string& name() const;
  // Whether it gives ids. indicator_column() and embedding_column() accept such columns, and
  // LinearModel learns a weight for each id.
  bool is_categorical() const;
  // Whether it gives numbers, for DenseFeatures. A bucketized_column() gives both.
  bool is_dense() const;
  // The number of ids of a categorical column: ids are 0 ... num_buckets() - 1. Throws
  // InvalidArgument for other columns.
  int64_t num_buckets() const;
  // The shape of the numbers of one example. Throws InvalidArgument for a column that is not dense.
  Shape variable_shape() const;
  // The number of weights of a LinearModel for the column: num_buckets(), or the number of numbers
  // of an example.
  int64_t num_weights() const;
  // Describes each of these, in order: words of a vocabulary, "25 to 35" for a number from 25 to
  // below 35, integers, "bucket 7" for hashes and crosses, "unknown 0" for buckets of values
  // outside of a vocabulary, "[1]" for one of several numbers, and "" for a single one.
  std::vector<std::string> value_names() const;

  const feature_column::internal::Column& impl() const { return *impl_; }
  const std::shared_ptr<const feature_column::internal::Column>& shared_impl() const {
    return impl_;
  }

 private:
  std::shared_ptr<const feature_column::internal::Column> impl_;
};

}  // namespace muster::inline v0_1
