#include "muster/losses/reduction.h"

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {

Tensor reduce(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::kNone:
      return losses;
    case Reduction::kSum:
      return losses.sum();
    case Reduction::kMean:
      return losses.numel() == 0 ? losses.sum() : losses.mean();
  }
  throw internal_error("unknown loss reduction");
}

}  // namespace muster::inline v0_1::losses
