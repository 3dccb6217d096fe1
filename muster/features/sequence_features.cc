#include "muster/features/sequence_features.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/features/internal/column_inputs.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::internal::ColumnInputs;
using feature_column::internal::ColumnValues;

class SequenceFeaturesImpl final : public LayerImpl {
 public:
  SequenceFeaturesImpl(std::shared_ptr<const ColumnInputs> columns, SequenceFeaturesOptions options)
      : LayerImpl("sequence_features", options.name),
        columns_(std::move(columns)),
        trainable_(options.trainable) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    const std::string& name = context.name_of(identity());
    const auto given = columns_->split(inputs, name, context.device());
    check_lengths(given, name);
    const Tensor values =
        feature_column::internal::joined_numbers(*columns_, given, identity(), context, trainable_);
    const Tensor& lengths = given.front().lengths;
    const Tensor steps = at::arange(values.size(1), lengths.options());
    return {.tensors = {values}, .masks = {steps.lt(lengths.unsqueeze(1))}};
  }

 private:
  void check_lengths(const std::vector<ColumnValues>& given, const std::string& name) const {
    for (size_t i = 1; i < given.size(); ++i) {
      // In a trace there is nothing to look at but the numbers it happens to be made with.
      if (given[i].values.size(1) == given[0].values.size(1) &&
          (is_tracing() || given[i].lengths.equal(given[0].lengths))) {
        continue;
      }
      throw invalid_argument(
          fmt::format("layer {}: the sequences of the columns '{}' and '{}' are not equally long",
                      name, columns_->column(0).name(), columns_->column(i).name()),
          "each example has as many steps in all columns of a layer");
    }
  }

  const std::shared_ptr<const ColumnInputs> columns_;
  const bool trainable_;
};

SequenceFeatures::Sequences sequences_of(const LayerOutputs& outputs) {
  return {.values = outputs.tensors.front(), .lengths = outputs.masks.front().sum(1)};
}

}  // namespace

SequenceFeatures::SequenceFeatures(const std::vector<FeatureColumn>& columns,
                                   SequenceFeaturesOptions options)
    : inputs_(ColumnInputs::of_dense("SequenceFeatures", columns, /*sequences=*/true)),
      layer_(std::make_shared<SequenceFeaturesImpl>(inputs_, std::move(options))) {}

LayerInputs SequenceFeatures::inputs(const Features& features) const {
  return inputs_->inputs(features);
}

SequenceFeatures::Sequences SequenceFeatures::operator()(const Features& features,
                                                         CallContext& context) const {
  return sequences_of(layer_(inputs(features), context));
}

SequenceFeatures::Sequences SequenceFeatures::operator()(const Features& features) const {
  return sequences_of(layer_(inputs(features)));
}

namespace feature_column {

Tensor concatenate_context_input(const Tensor& context_input, const Tensor& sequence_input) {
  if (!context_input.defined() || !sequence_input.defined() || context_input.dim() != 2 ||
      sequence_input.dim() != 3) {
    throw invalid_argument(
        fmt::format("concatenate_context_input: context_input is {}, and sequence_input {}",
                    context_input.defined() ? describe(context_input) : "undefined",
                    sequence_input.defined() ? describe(sequence_input) : "undefined"),
        "they are [batch, context] and [batch, steps, numbers]");
  }
  const Tensor tiled = context_input.unsqueeze(1).expand({-1, sequence_input.size(1), -1});
  return at::cat({sequence_input, tiled.to(sequence_input.scalar_type())}, /*dim=*/2);
}

}  // namespace feature_column

}  // namespace muster::inline v0_1
