// The column that numeric_column() makes, which bucketized_column() cuts.
// Thread safety: immutable; the normalizer_fn is called from threads of the pipeline.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "muster/features/dense_column.h"
#include "muster/features/internal/column.h"

namespace muster::inline v0_1::feature_column::internal {

class NumericColumn final : public Source {
 public:
  NumericColumn(const std::string& key, NumericColumnOptions options);

  bool is_dense() const override { return true; }
  Shape variable_shape() const override { return options_.shape; }
  std::string definition() const override;
  nlohmann::json recipe() const override;
  void add_features(data::FeatureSpec& spec) const override;
  std::vector<Entry> entries() const override;
  ColumnValues resolve(const FeatureReader& features) const override;
  Tensor numbers(const ColumnValues& given, const TableRows&) const override;

  // float32 or float64 [batch, shape...]: as exact as the feature, and then the result of the
  // normalizer_fn.
  Tensor read(const FeatureReader& features) const;
  DType dtype() const { return options_.dtype; }

 private:
  Tensor normalized(const Tensor& numbers) const;

  const NumericColumnOptions options_;
};

}  // namespace muster::inline v0_1::feature_column::internal
