// A batch as it was, for a function that is called twice with it and may change it in place.
// Thread safety: belongs to one thread, and so does the batch meanwhile.
#pragma once

#include <utility>
#include <vector>

#include "muster/tensor/batch.h"

namespace muster::inline v0_1::distribute {

class KeptBatch {
 public:
  // Copies the tensors. `batch` may be nullptr: then there is nothing to keep.
  explicit KeptBatch(const Batch* batch);
  // Gives the tensors of the batch the values, and the shapes, that they had.
  void put_back() const;

 private:
  std::vector<std::pair<Tensor, Tensor>> kept_;  // one of the batch, and its copy
};

}  // namespace muster::inline v0_1::distribute
