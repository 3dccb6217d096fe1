#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/base/hash.h"
#include "muster/features/categorical_column.h"
#include "muster/features/internal/column.h"
#include "muster/features/internal/feature_specs.h"

namespace muster::inline v0_1::feature_column {
namespace {

using internal::CategoricalColumn;
using internal::CategoryValues;
using internal::Cells;
using internal::FeatureReader;

class HashBucketColumn final : public CategoricalColumn {
 public:
  HashBucketColumn(const std::string& key, int64_t buckets, data::FeatureDType dtype)
      : CategoricalColumn(key), buckets_(buckets), dtype_(dtype) {}

  int64_t num_buckets() const override { return buckets_; }
  bool can_be_crossed() const override { return false; }
  bool has_hash_buckets() const override { return true; }
  std::string value_name(int64_t place) const override { return fmt::format("bucket {}", place); }
  std::string definition() const override {
    return fmt::format("{} hash buckets of {}", buckets_, internal::dtype_name(dtype_));
  }
  nlohmann::json recipe() const override {
    return {{"kind", "hash"},
            {"key", name()},
            {"buckets", buckets_},
            {"dtype", internal::dtype_name(dtype_)}};
  }
  void add_features(data::FeatureSpec& spec) const override {
    internal::add_feature(spec, fmt::format("the column '{}'", name()), name(),
                          data::VarLenFeature{dtype_});
  }

  Cells ids(const FeatureReader& features) const override {
    const CategoryValues values = features.categories(name(), name(), dtype_);
    Cells cells(values.rows(), values.width());
    const auto buckets = static_cast<uint64_t>(buckets_);
    if (values.is_strings() && !values.has_lengths()) {
      for (int64_t i = 0; i < values.size(); ++i) {
        const std::string_view text = values.text(i);
        if (!text.empty()) cells.set(i, static_cast<int64_t>(fingerprint64(text) % buckets));
      }
      return cells;
    }
    for (int64_t i = 0; i < values.size(); ++i) {
      if (!values.present(i)) continue;
      cells.set(i, static_cast<int64_t>(internal::fingerprint_of(values, i) % buckets));
    }
    return cells;
  }

  void seen(const FeatureReader& features, const internal::TellSeen& tell) const override {
    const CategoryValues values = features.categories(name(), name(), dtype_);
    const Cells cells = ids(features);
    for (int64_t i = 0; i < values.size(); ++i) {
      if (values.present(i))
        tell(cells.values[static_cast<size_t>(i)], internal::text_of(values, i));
    }
  }

 private:
  const int64_t buckets_;
  const data::FeatureDType dtype_;
};

}  // namespace

FeatureColumn categorical_column_with_hash_bucket(const std::string& key, int64_t hash_bucket_size,
                                                  const HashBucketOptions& options) {
  constexpr const char* kFunction = "categorical_column_with_hash_bucket";
  internal::check_key(kFunction, key);
  internal::check_at_least(kFunction, key, "hash_bucket_size", hash_bucket_size, 1);
  internal::check_category_dtype(kFunction, key, options.dtype);
  return FeatureColumn(
      std::make_shared<const HashBucketColumn>(key, hash_bucket_size, options.dtype));
}

}  // namespace muster::inline v0_1::feature_column
