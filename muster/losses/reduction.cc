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

ReduceOp over_replicas(Reduction reduction) {
  switch (reduction) {
    case Reduction::kNone:
      throw invalid_argument(
          "over_replicas: the reduction is kNone, which leaves a loss for each example",
          "reduce the losses first, by kMean or kSum");
    case Reduction::kSum:
      return ReduceOp::kSum;
    case Reduction::kMean:
      return ReduceOp::kMean;
  }
  throw internal_error("unknown loss reduction");
}

}  // namespace muster::inline v0_1::losses
