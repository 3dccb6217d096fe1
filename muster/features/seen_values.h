// Collects which values fall into the buckets of columns that hash: the bucket alone does not show
// them. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/features/feature_column.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::feature_column {

class SeenValues {
 public:
  // Looks at those of these columns that have hash buckets, crossed columns among them.
  explicit SeenValues(const std::vector<FeatureColumn>& columns);

  // Takes a dict of features with a row per example, before resolve(), or a tuple that begins with
  // one. Throws InvalidArgument as resolve() does for features that are missing or of another
  // dtype.
  void add(const Element& batch);

  // The values that were seen in a bucket, with how often, the most frequent first; of a cross as
  // "25 to 35 x Paris".
  std::vector<std::pair<std::string, int64_t>> in_bucket(const std::string& column,
                                                         int64_t bucket) const;

 private:
  using Counts = std::map<std::string, int64_t>;

  std::vector<FeatureColumn> columns_;
  std::map<std::string, std::map<int64_t, Counts>> seen_;
};

}  // namespace muster::inline v0_1::feature_column
