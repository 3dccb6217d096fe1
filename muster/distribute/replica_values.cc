#include "muster/distribute/replica_values.h"

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

std::string replicas_name(const std::string& variable) { return variable + "/replicas"; }

Shape replicas_shape(const VariableSpec& spec, int replicas) {
  Shape shape{replicas};
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  return shape;
}

Tensor aggregate(const VariableSpec& spec, const Tensor& values) {
  if (spec.aggregation == VariableAggregation::kConcat) return values.flatten(0, 1);
  Tensor one = values[0].clone();
  const bool mean = spec.aggregation == VariableAggregation::kMean;
  if (!mean && spec.aggregation != VariableAggregation::kSum) return one;
  for (int64_t replica = 1; replica < values.size(0); ++replica) one.add_(values[replica]);
  return mean ? one.div_(values.size(0)) : one;
}

bool is_concatenation(const VariableSpec& spec, const Tensor& value, int replicas) {
  Shape shape = spec.shape;
  shape[0] *= replicas;
  return value.scalar_type() == spec.dtype && value.sizes() == at::IntArrayRef(shape);
}

Tensor spread(const VariableSpec& spec, const Tensor& value, int replicas) {
  Tensor values = value.detach().expand(replicas_shape(spec, replicas)).contiguous();
  if (spec.aggregation == VariableAggregation::kSum) values.slice(0, 1).zero_();
  return values;
}

}  // namespace muster::inline v0_1::distribute
