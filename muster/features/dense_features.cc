#include "muster/features/dense_features.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/features/internal/column_inputs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::internal::ColumnInputs;
using feature_column::internal::ColumnValues;

class DenseFeaturesImpl final : public LayerImpl {
 public:
  DenseFeaturesImpl(std::shared_ptr<const ColumnInputs> columns, DenseFeaturesOptions options)
      : LayerImpl("dense_features", options.name),
        columns_(std::move(columns)),
        trainable_(options.trainable) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    const std::vector<ColumnValues> given =
        columns_->split(inputs, context.name_of(identity()), context.device());
    std::vector<Tensor> numbers;
    for (size_t i = 0; i < given.size(); ++i) {
      const auto rows = [&](const VariableSpec& table, const Tensor& ids) {
        return context.rows(
            identity(), columns_->table_of(i),
            [&] { return feature_column::internal::with_trainable(table, trainable_); }, ids);
      };
      numbers.push_back(columns_->column(i).numbers(given[i], rows));
    }
    return {.tensors = {numbers.size() == 1 ? numbers.front() : at::cat(numbers, /*dim=*/1)}};
  }

 private:
  const std::shared_ptr<const ColumnInputs> columns_;
  const bool trainable_;
};

std::shared_ptr<const ColumnInputs> dense_inputs(const std::vector<FeatureColumn>& columns) {
  for (const FeatureColumn& column : columns) {
    if (column.is_dense()) continue;
    throw invalid_argument("DenseFeatures: the column '" + column.name() + "' is not dense",
                           "wrap it in an indicator_column() or an embedding_column()");
  }
  return std::make_shared<const ColumnInputs>("DenseFeatures", columns);
}

}  // namespace

DenseFeatures::DenseFeatures(const std::vector<FeatureColumn>& columns,
                             DenseFeaturesOptions options)
    : inputs_(dense_inputs(columns)),
      layer_(std::make_shared<DenseFeaturesImpl>(inputs_, std::move(options))) {}

LayerInputs DenseFeatures::inputs(const Features& features) const {
  return inputs_->inputs(features);
}

Tensor DenseFeatures::operator()(const Features& features, CallContext& context) const {
  return layer_(inputs(features), context).tensors.front();
}

Tensor DenseFeatures::operator()(const Features& features) const {
  return layer_(inputs(features)).tensors.front();
}

int64_t DenseFeatures::width() const {
  int64_t all = 0;
  for (size_t i = 0; i < inputs_->size(); ++i) {
    all += c10::multiply_integers(inputs_->column(i).variable_shape());
  }
  return all;
}

}  // namespace muster::inline v0_1
