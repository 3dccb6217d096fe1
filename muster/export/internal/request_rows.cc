#include "muster/export/internal/request_rows.h"

#include "muster/base/random.h"
#include "muster/export/free_axes.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// Slices 0, 1, ... of an axis, from the beginning again after the last one.
Tensor repeated(const Tensor& tensor, int64_t axis, int64_t length) {
  if (tensor.size(axis) == length) return tensor;
  return tensor.index_select(axis, torch::arange(length, at::kLong).remainder(tensor.size(axis)));
}

Tensor rows_of_example(Tensor rows, const Shape& shape) {
  for (size_t axis = 0; axis < shape.size(); ++axis)
    rows = repeated(rows, static_cast<int64_t>(axis), shape[axis]);
  return rows;
}

Tensor generated(const std::string& name, const ServingFeature& feature, bool is_ids,
                 const Shape& shape, const Numbers& numbers) {
  Random random(derive_key(static_cast<uint64_t>(shape.front()), {id_of(name), numbers.draw}));
  Tensor values = torch::empty(shape, at::kDouble);
  double* value = values.data_ptr<double>();
  const bool floats = at::isFloatingType(feature.dtype);
  for (int64_t i = 0; i < values.numel(); ++i)
    value[i] = floats ? numbers.least + (numbers.most - numbers.least) * random.uniform()
                      : static_cast<double>(random.uniform_below(2)) - (is_ids ? 1 : 0);
  return values.to(feature.dtype);
}

}  // namespace

std::map<std::string, Tensor> batch_of(const ServingInputReceiver& receiver, int64_t rows,
                                       const std::vector<int64_t>& lengths,
                                       const Numbers& numbers) {
  std::map<std::string, Tensor> batch;
  for (const auto& [name, feature] : receiver.features) {
    const bool is_ids = receiver.columns != nullptr && name.ends_with("/ids");
    const Shape shape = batch_shape(receiver, name, rows, lengths);
    batch[name] = feature.example ? rows_of_example(*feature.example, shape)
                                  : generated(name, feature, is_ids, shape, numbers);
  }
  return batch;
}

}  // namespace muster::inline v0_1::internal
