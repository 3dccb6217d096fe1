// The feature with the weights of examples, for heads and canned estimators.
// Thread safety: an immutable value.
#pragma once

#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/features/feature_column.h"
#include "muster/tensor/features.h"

namespace muster::inline v0_1 {

class MUSTER_EXPORT WeightColumn {
 public:
  WeightColumn() = default;       // none: each example has weight 1
  WeightColumn(std::string key);  // NOLINT(google-explicit-constructor): of a feature; empty: none
  WeightColumn(const char* key);  // NOLINT(google-explicit-constructor)
  // A numeric_column(): its normalizer_fn computes the weights from its feature. Throws
  // InvalidArgument for another column.
  WeightColumn(FeatureColumn column);  // NOLINT(google-explicit-constructor)

  bool empty() const { return key_.empty(); }
  // The key of the feature.
  const std::string& key() const { return key_; }
  // The column, if it was made from one.
  const std::optional<FeatureColumn>& column() const { return column_; }

  // Whether the features contain the weights, resolved by resolve() or not.
  bool is_in(const Features& features) const;
  // Returns the weights. Throws NotFound if they are missing, and InvalidArgument for a feature
  // that the column refuses.
  Value of(const Features& features) const;

 private:
  std::string key_;
  std::optional<FeatureColumn> column_;
};

}  // namespace muster::inline v0_1
