#include "muster/features/seen_values.h"

#include <algorithm>

#include "muster/features/internal/column.h"

namespace muster::inline v0_1::feature_column {
namespace {

const internal::CategoricalColumn* categorical_of(const FeatureColumn& column) {
  return dynamic_cast<const internal::CategoricalColumn*>(&column.impl().source());
}

}  // namespace

SeenValues::SeenValues(const std::vector<FeatureColumn>& columns) {
  for (const FeatureColumn& column : columns) {
    const auto* categorical = categorical_of(column);
    if (categorical != nullptr && categorical->has_hash_buckets()) columns_.push_back(column);
  }
}

void SeenValues::add(const Element& batch) {
  const bool tuple = batch.structure().kind == Structure::Kind::kTuple && batch.size() > 0;
  const Element features = tuple ? batch.part(0) : batch;
  const internal::FeatureReader reader(features);
  for (const FeatureColumn& column : columns_) {
    std::map<int64_t, Counts>& buckets = seen_[column.name()];
    categorical_of(column)->seen(
        reader, [&buckets](int64_t id, const std::string& value) { ++buckets[id][value]; });
  }
}

std::vector<std::pair<std::string, int64_t>> SeenValues::in_bucket(const std::string& column,
                                                                   int64_t bucket) const {
  const auto buckets = seen_.find(column);
  if (buckets == seen_.end()) return {};
  const auto counts = buckets->second.find(bucket);
  if (counts == buckets->second.end()) return {};
  std::vector<std::pair<std::string, int64_t>> sorted(counts->second.begin(), counts->second.end());
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           &std::pair<std::string, int64_t>::second);
  return sorted;
}

}  // namespace muster::inline v0_1::feature_column
