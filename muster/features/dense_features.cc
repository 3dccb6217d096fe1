#include "muster/features/dense_features.h"

#include <utility>

#include "muster/features/internal/column_inputs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::internal::ColumnInputs;

class DenseFeaturesImpl final : public LayerImpl {
 public:
  DenseFeaturesImpl(std::shared_ptr<const ColumnInputs> columns, DenseFeaturesOptions options)
      : LayerImpl("dense_features", options.name),
        columns_(std::move(columns)),
        trainable_(options.trainable) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    const auto given = columns_->split(inputs, context.name_of(identity()), context.device());
    return {.tensors = {feature_column::internal::joined_numbers(*columns_, given, identity(),
                                                                 context, trainable_)}};
  }

 private:
  const std::shared_ptr<const ColumnInputs> columns_;
  const bool trainable_;
};

}  // namespace

DenseFeatures::DenseFeatures(const std::vector<FeatureColumn>& columns,
                             DenseFeaturesOptions options)
    : inputs_(ColumnInputs::of_dense("DenseFeatures", columns)),
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
