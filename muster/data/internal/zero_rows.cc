#include "muster/data/internal/zero_rows.h"

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

Element without_rows(const Element& batch) {
  return batch.transform([](const Value& value) -> Value {
    if (!value.is_tensor()) return value.slice(0, 0);
    Shape shape = value.tensor().sizes().vec();
    shape[0] = 0;
    return torch::empty(shape, value.tensor().options());
  });
}

}  // namespace muster::inline v0_1::data::internal
