#include <memory>
#include <string>
#include <utility>

#include "muster/features/dense_column.h"
#include "muster/features/internal/column.h"

namespace muster::inline v0_1::feature_column {
namespace {

using internal::CategoricalColumn;
using internal::Column;
using internal::ColumnValues;
using internal::Source;
using internal::TableRows;

class IndicatorColumn final : public Column {
 public:
  explicit IndicatorColumn(std::shared_ptr<const CategoricalColumn> categorical)
      : Column(categorical->name() + "_indicator"), categorical_(std::move(categorical)) {}

  bool is_dense() const override { return true; }
  const Source& source() const override { return *categorical_; }
  Shape variable_shape() const override { return {1, categorical_->num_buckets()}; }
  std::string value_name(int64_t place) const override { return categorical_->value_name(place); }
  Tensor numbers(const ColumnValues& given, const TableRows&) const override {
    return internal::counted_ids(given, categorical_->num_buckets());
  }

 private:
  const std::shared_ptr<const CategoricalColumn> categorical_;
};

}  // namespace

FeatureColumn indicator_column(const FeatureColumn& categorical) {
  return FeatureColumn(std::make_shared<const IndicatorColumn>(
      internal::as_categorical("indicator_column", categorical.shared_impl())));
}

}  // namespace muster::inline v0_1::feature_column
