// A feature column says how an entry of the input becomes numbers that a model takes, as in
// tf.feature_column. It is a description: resolve() ("muster/features/resolve.h") runs the part
// that reads texts and looks up ids in the input pipeline, DenseFeatures and LinearModel the part
// that learns. Columns are made by the functions of "muster/features/dense_column.h",
// "muster/features/categorical_column.h" and "muster/features/sequence_column.h". Thread safety:
// immutable values; copies share the description.
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

  // TensorFlow's: "age", "age_bucketized", "city_X_job", "city_embedding".
  const std::string& name() const;
  // Whether it gives ids: indicator_column() and embedding_column() take such a column, and
  // LinearModel learns a weight for each id.
  bool is_categorical() const;
  // Whether it gives numbers, which DenseFeatures takes. A bucketized_column() is both.
  bool is_dense() const;
  // The number of ids of a categorical column, which are 0 ... num_buckets() - 1. Throws
  // InvalidArgument for others.
  int64_t num_buckets() const;
  // The shape of the numbers of one example. Throws InvalidArgument for a column that is not dense.
  Shape variable_shape() const;
  // How many weights a LinearModel has for the column: num_buckets(), or the numbers of an example.
  int64_t num_weights() const;
  // What each of these is for, in their order: words of a vocabulary, "25 to 35" for a number from
  // 25 to below 35, integers, "bucket 7" of hashes and crosses, "unknown 0" of buckets for what no
  // vocabulary has, "[1]" for one of several numbers, and "" for a single one.
  std::vector<std::string> value_names() const;

  const feature_column::internal::Column& impl() const { return *impl_; }
  const std::shared_ptr<const feature_column::internal::Column>& shared_impl() const {
    return impl_;
  }

 private:
  std::shared_ptr<const feature_column::internal::Column> impl_;
};

}  // namespace muster::inline v0_1
