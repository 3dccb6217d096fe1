#include "muster/ps/closures.h"

#include <utility>

namespace muster::inline v0_1::ps {

void ClosureResult::end(std::vector<Tensor> tensors, std::optional<Error> error) {
  tensors_ = std::move(tensors);
  error_ = std::move(error);
  ended_.store(true, std::memory_order_release);
}

}  // namespace muster::inline v0_1::ps
