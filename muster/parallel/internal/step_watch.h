// Notices that an optimizer's step() used gradients that were not averaged. Thread safety: belongs
// to the loop's thread.
//
// LibTorch's optimizers write through data(), which counts no version of a parameter, and comparing
// all weights would cost a pass over them. So one number of each weight is compared: one that the
// gradient moves. On a CPU it is the one with the largest gradient among 1024 that begin with the
// first block of them that is not all 0, on a GPU the largest of all. A step() is missed only if it
// leaves all of these as they are: if it rounds to nothing in every weight.
#pragma once

#include <cstddef>
#include <map>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

class StepWatch {
 public:
  // Call with a weight that has got a gradient; `number` is the weight's. From its first call on
  // the weight is watched. One without a gradient, or with a sparse one, is not.
  void note(size_t number, const Tensor& weight);
  // Whether a watched weight has changed since.
  bool changed() const;
  // Watches nothing from now on.
  void clear() { watched_.clear(); }

 private:
  struct Watched {
    Tensor weight{};
    Tensor index{};  // int64 [1]: of the number in flat()
    Tensor value{};  // [1]: as it was
  };
  std::map<size_t, Watched> watched_;
};

}  // namespace muster::inline v0_1::internal
