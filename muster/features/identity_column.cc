#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/features/categorical_column.h"
#include "muster/features/internal/column.h"
#include "muster/features/internal/feature_specs.h"

namespace muster::inline v0_1::feature_column {
namespace {

using internal::CategoricalColumn;
using internal::CategoryValues;
using internal::Cells;
using internal::FeatureReader;

class IdentityColumn final : public CategoricalColumn {
 public:
  IdentityColumn(const std::string& key, int64_t buckets, std::optional<int64_t> default_value)
      : CategoricalColumn(key), buckets_(buckets), default_value_(default_value) {}

  int64_t num_buckets() const override { return buckets_; }
  std::string value_name(int64_t place) const override { return std::to_string(place); }
  std::string definition() const override {
    return fmt::format("{} ids, others {}", buckets_, default_value_.value_or(-1));
  }
  nlohmann::json recipe() const override {
    nlohmann::json recipe{{"kind", "identity"}, {"key", name()}, {"buckets", buckets_}};
    if (default_value_) recipe["default_value"] = *default_value_;
    return recipe;
  }
  void add_features(data::FeatureSpec& spec) const override {
    internal::add_feature(spec, fmt::format("the column '{}'", name()), name(),
                          data::VarLenFeature{kInt64});
  }

  Cells ids(const FeatureReader& features) const override {
    const CategoryValues values = features.categories(name(), name(), kInt64);
    Cells cells(values.rows(), values.width());
    for (int64_t i = 0; i < values.size(); ++i) {
      if (!values.present(i)) continue;
      const int64_t value = values.number(i);
      const bool inside = value >= 0 && value < buckets_;
      if (!inside && !default_value_ && value >= buckets_) {
        throw invalid_argument(
            fmt::format("the column '{}': the value {}, number {} of the batch, is outside of its "
                        "{} buckets",
                        name(), value, i, buckets_),
            fmt::format("values must be 0 to {}; a default_value replaces others", buckets_ - 1));
      }
      cells.set(i, inside ? value : default_value_.value_or(value));
    }
    return cells;
  }

 private:
  const int64_t buckets_;
  const std::optional<int64_t> default_value_;
};

}  // namespace

FeatureColumn categorical_column_with_identity(const std::string& key, int64_t num_buckets,
                                               const IdentityOptions& options) {
  constexpr const char* kFunction = "categorical_column_with_identity";
  internal::check_key(kFunction, key);
  internal::check_at_least(kFunction, key, "num_buckets", num_buckets, 1);
  if (options.default_value &&
      (*options.default_value < 0 || *options.default_value >= num_buckets)) {
    throw invalid_argument(
        fmt::format("{} of '{}': default_value is {}", kFunction, key, *options.default_value),
        fmt::format("it is an id, from 0 to {}", num_buckets - 1));
  }
  return FeatureColumn(
      std::make_shared<const IdentityColumn>(key, num_buckets, options.default_value));
}

}  // namespace muster::inline v0_1::feature_column
