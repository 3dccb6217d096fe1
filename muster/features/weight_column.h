// The feature with the weights of the examples, of heads and canned estimators.
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
  WeightColumn() = default;       // none: each example weighs 1
  WeightColumn(std::string key);  // NOLINT(google-explicit-constructor): of a feature; empty: none
  WeightColumn(const char* key);  // NOLINT(google-explicit-constructor)
  // A numeric_column(): weights are what its normalizer_fn makes of the feature of its key. Throws
  // InvalidArgument for another column.
  WeightColumn(FeatureColumn column);  // NOLINT(google-explicit-constructor)

  bool empty() const { return key_.empty(); }
  // The key of the feature.
  const std::string& key() const { return key_; }
  // The column, where it is one.
  const std::optional<FeatureColumn>& column() const { return column_; }

  // Whether the features have them, read by resolve() or not.
  bool is_in(const Features& features) const;
  // Gives them. Throws NotFound where they are not there, and InvalidArgument for a feature that
  // the column refuses.
  Value of(const Features& features) const;

 private:
  std::string key_;
  std::optional<FeatureColumn> column_;
};

}  // namespace muster::inline v0_1
