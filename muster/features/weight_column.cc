#include "muster/features/weight_column.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/features/internal/column.h"

namespace muster::inline v0_1 {
namespace {

// The key in a batch that was resolved.
std::string resolved_key(const std::string& key) { return key + "/values"; }

}  // namespace

WeightColumn::WeightColumn(std::string key) : key_(std::move(key)) {}
WeightColumn::WeightColumn(const char* key) : key_(key) {}

WeightColumn::WeightColumn(FeatureColumn column) : key_(column.name()), column_(std::move(column)) {
  const auto& impl = column_->impl();
  if (impl.is_dense() && !impl.is_categorical() && !impl.is_sequence() && &impl.source() == &impl)
    return;
  throw invalid_argument("weight_column: the column '" + key_ + "' is not a numeric_column",
                         "weights are numbers of a feature: give its key, or a numeric_column()");
}

bool WeightColumn::is_in(const Features& features) const {
  return features.contains(key_) || (column_ && features.contains(resolved_key(key_)));
}

Value WeightColumn::of(const Features& features) const {
  if (!column_) return features.value(key_);
  if (features.contains(resolved_key(key_))) return features.value(resolved_key(key_));
  return column_->impl()
      .source()
      .resolve(feature_column::internal::FeatureReader(features.element()))
      .values;
}

}  // namespace muster::inline v0_1
