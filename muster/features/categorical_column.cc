#include "muster/features/categorical_column.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/features/internal/column.h"
#include "muster/features/internal/feature_specs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column {
namespace {

using internal::CategoricalColumn;
using internal::CategoryValues;
using internal::Cells;
using internal::ColumnValues;
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
            fmt::format("values go from 0 to {}; a default_value stands in for others",
                        buckets_ - 1));
      }
      cells.set(i, inside ? value : default_value_.value_or(value));
    }
    return cells;
  }

 private:
  const int64_t buckets_;
  const std::optional<int64_t> default_value_;
};

class WeightedColumn final : public CategoricalColumn {
 public:
  WeightedColumn(std::shared_ptr<const CategoricalColumn> categorical, const std::string& key,
                 DType dtype)
      : CategoricalColumn(categorical->name() + "_weighted_by_" + key),
        categorical_(std::move(categorical)),
        key_(key),
        dtype_(dtype) {}

  int64_t num_buckets() const override { return categorical_->num_buckets(); }
  bool is_weighted() const override { return true; }
  bool can_be_crossed() const override { return false; }
  bool has_hash_buckets() const override { return categorical_->has_hash_buckets(); }
  std::string value_name(int64_t place) const override { return categorical_->value_name(place); }
  void seen(const FeatureReader& features, const internal::TellSeen& tell) const override {
    categorical_->seen(features, tell);
  }
  std::string definition() const override { return categorical_->definition(); }
  nlohmann::json recipe() const override {
    return {{"kind", "weighted"},
            {"categorical", categorical_->recipe()},
            {"weights", key_},
            {"dtype", muster::dtype_name(dtype_)}};
  }
  void add_features(data::FeatureSpec& spec) const override {
    categorical_->add_features(spec);
    internal::add_feature(spec, fmt::format("the column '{}'", name()), key_,
                          data::VarLenFeature{dtype_});
  }

  Cells ids(const FeatureReader& features) const override { return categorical_->ids(features); }

  ColumnValues resolve(const FeatureReader& features) const override {
    ColumnValues resolved = CategoricalColumn::resolve(features);
    const Tensor& ids = resolved.values;
    const Value& value = features.feature(name(), key_);
    Tensor weights;
    if (value.is_tensor() && value.tensor().dim() <= 2 &&
        value.tensor().scalar_type() != at::kBool) {
      weights = value.tensor().detach().to(at::kCPU, kFloat32);
      if (weights.dim() == 1) weights = weights.unsqueeze(1);
    }
    if (!weights.defined() || weights.sizes() != ids.sizes()) {
      throw invalid_argument(fmt::format("the column '{}': its weights '{}' are {}, and its ids {}",
                                         name(), key_, value.describe(), describe(ids)),
                             "there is a weight for each value, a number");
    }
    const Tensor lengths = features.row_lengths(name(), key_, ids.size(0), ids.size(1));
    if (lengths.defined()) {
      check_lengths(features, lengths, ids.size(1));
      resolved.weights = weights;
    } else {
      // A dense weight of 0 says that there is no value.
      resolved.values = ids.masked_fill(weights.eq(0), -1);
      resolved.weights = weights;
    }
    return resolved;
  }

 private:
  // Each row has as many weights as values.
  void check_lengths(const FeatureReader& features, const Tensor& lengths, int64_t width) const {
    const Cells cells = categorical_->ids(features);
    for (int64_t row = 0; row < cells.rows; ++row) {
      int64_t values = 0;
      for (int64_t i = row * width; i < (row + 1) * width; ++i) {
        values += cells.present[static_cast<size_t>(i)];
      }
      const int64_t given = lengths.data_ptr<int64_t>()[row];
      if (values == given) continue;
      throw invalid_argument(
          fmt::format("the column '{}': row {} has {} values and {} weights '{}'", name(), row,
                      values, given, key_),
          "there is a weight for each value");
    }
  }

  const std::shared_ptr<const CategoricalColumn> categorical_;
  const std::string key_;
  const DType dtype_;
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

FeatureColumn weighted_categorical_column(const FeatureColumn& categorical,
                                          const std::string& weight_feature_key,
                                          const WeightedOptions& options) {
  constexpr const char* kFunction = "weighted_categorical_column";
  internal::check_key(kFunction, weight_feature_key);
  auto inner = internal::as_categorical(kFunction, categorical.shared_impl());
  if (inner->is_weighted()) {
    throw invalid_argument(
        fmt::format("{}: the column '{}' has weights already", kFunction, inner->name()),
        "give it the column without them");
  }
  if (inner->is_sequence()) {
    throw invalid_argument(
        fmt::format("{}: the column '{}' is one of sequences", kFunction, inner->name()),
        "the categories of a step have no weights");
  }
  internal::check_number_dtype(kFunction, inner->name(), options.dtype);
  return FeatureColumn(
      std::make_shared<const WeightedColumn>(std::move(inner), weight_feature_key, options.dtype));
}

}  // namespace muster::inline v0_1::feature_column
