// Memory of large batches, which is used again when the batch is no longer held. Freed memory would
// go back to the system and come back page by page, which takes as long as filling it. Thread
// safety: one thread; the batches may be released on any.
#pragma once

#include <cstddef>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::data::internal {

class BatchMemory {
 public:
  // A CPU tensor for the value of that number, not initialised, of the dtype of `like`.
  Tensor take(size_t value, const Shape& shape, const Tensor& like);

 private:
  struct OfValue {
    std::vector<Tensor> kept;  // the last ones handed out, each all of a storage
    size_t oldest = 0;
  };
  std::vector<OfValue> values_;
};

}  // namespace muster::inline v0_1::data::internal
