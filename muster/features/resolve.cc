#include "muster/features/resolve.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/example.h"
#include "muster/features/internal/column.h"

namespace muster::inline v0_1::feature_column {

struct FeatureTransform::Plan {
  std::vector<std::shared_ptr<const internal::Column>> columns{};  // keep the sources
  std::vector<const internal::Source*> sources{};
  std::set<std::string> keys{};  // of the features that are read

  Element resolved(const Element& features) const;
};

FeatureTransform resolve(const std::vector<FeatureColumn>& columns) {
  auto plan = std::make_shared<FeatureTransform::Plan>();
  std::map<std::string, const internal::Source*> by_name;
  data::FeatureSpec spec;
  for (const FeatureColumn& column : columns) {
    const internal::Source& source = column.impl().source();
    const auto [known, is_new] = by_name.emplace(source.name(), &source);
    if (!is_new) {
      if (known->second->definition() == source.definition()) continue;
      throw invalid_argument(
          fmt::format("resolve: two columns are named '{}', and one gives {}, the other {}",
                      source.name(), known->second->definition(), source.definition()),
          "make the column once, and use it in both places; or give the feature another key too");
    }
    plan->columns.push_back(column.shared_impl());
    plan->sources.push_back(&source);
    data::FeatureSpec own;
    source.add_features(own);
    for (const auto& [key, feature] : own) plan->keys.insert(key);
  }
  return FeatureTransform(std::move(plan));
}

ResolvedColumn resolved_column(const FeatureColumn& column) {
  const internal::Source& source = column.impl().source();
  ResolvedColumn resolved{.entries = {},
                          .is_dense = source.is_dense(),
                          .gives_sequences = source.gives_sequences(),
                          .crosses = source.crosses()};
  for (const internal::Entry& entry : source.entries()) {
    const bool ids = source.is_categorical() && entry.tensor == &internal::ColumnValues::values;
    const bool lengths = entry.tensor == &internal::ColumnValues::lengths;
    resolved.entries.push_back({entry.key, ids || lengths ? kInt64 : kFloat32});
  }
  return resolved;
}

Element FeatureTransform::Plan::resolved(const Element& features) const {
  const internal::FeatureReader reader(features);
  std::vector<std::pair<std::string, Element>> entries;
  for (const internal::Source* source : sources) {
    const std::vector<internal::Entry> made = source->entries();
    if (reader.find(made.front().key) != nullptr) continue;
    const internal::ColumnValues values = source->resolve(reader);
    for (const internal::Entry& entry : made) entries.emplace_back(entry.key, values.*entry.tensor);
  }
  const std::vector<std::string>& given = features.structure().keys;
  for (size_t i = 0; i < given.size(); ++i) {
    const Value* value = reader.find(given[i]);
    if (value != nullptr && value->is_strings() && keys.contains(given[i])) continue;
    entries.emplace_back(given[i], features.part(static_cast<int64_t>(i)));
  }
  return Element::dict(std::move(entries));
}

Element FeatureTransform::operator()(const Element& batch) const {
  if (batch.structure().kind != Structure::Kind::kTuple || batch.size() == 0) {
    return plan_->resolved(batch);
  }
  std::vector<Element> parts{plan_->resolved(batch.part(0))};
  for (int64_t i = 1; i < batch.size(); ++i) parts.push_back(batch.part(i));
  return Element::tuple(std::move(parts));
}

}  // namespace muster::inline v0_1::feature_column
