#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/features/categorical_column.h"
#include "muster/features/internal/column.h"
#include "muster/features/internal/feature_specs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column {
namespace {

using internal::CategoricalColumn;
using internal::Cells;
using internal::ColumnValues;
using internal::FeatureReader;

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
