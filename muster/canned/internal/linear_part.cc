#include "muster/canned/internal/linear_part.h"

#include "muster/canned/internal/error_context.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

const std::string kModel = LinearPart::kModelScope;
const std::string kBias = kModel + "bias_weights";

// Over all weights except the bias.
Tensor fraction_of_zero_weights(const VariableStore& variables) {
  const at::NoGradGuard no_grad;
  Tensor zeros;
  double count = 0;
  for (const auto& variable : variables.variables()) {
    const std::string& name = variable->name();
    if (!name.starts_with(kModel) || name == kBias) continue;
    const Tensor own = variable->value().eq(0).sum();
    zeros = zeros.defined() ? zeros + own : own;
    count += static_cast<double>(variable->value().numel());
  }
  return zeros.to(at::kFloat).div(count);
}

void show(ModelContext& context) {
  Summaries& summary = context.summary();
  if (!summary.due()) return;
  const VariableStore& variables = context.variables();
  const Tensor& bias = variables.find(kBias)->value();
  if (bias.numel() == 1) {
    summary.scalar("bias", bias);
  } else {
    summary.histogram("bias", bias);
  }
  summary.scalar("fraction_of_zero_weights", [&] { return fraction_of_zero_weights(variables); });
}

}  // namespace

LinearPart::LinearPart(std::string estimator, const std::vector<FeatureColumn>& columns,
                       int64_t units, feature_column::Combiner sparse_combiner)
    : estimator_(std::move(estimator)), model_(with_error_context(estimator_, [&] {
        return LinearModel(columns, {.units = units, .sparse_combiner = sparse_combiner});
      })) {}

Tensor LinearPart::logits(const Features& features, ModelContext& context) const {
  const LayerInputs inputs =
      with_error_context(estimator_, [&] { return model_.inputs(features); });
  const Tensor logits = context.model("linear", [this] { return model_; })(inputs).tensors.front();
  show(context);
  return logits;
}

}  // namespace muster::inline v0_1::internal
