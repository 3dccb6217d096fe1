// Changes the gradients of an optimizer before its update rule uses them: clipping, for example.
// Thread safety: a transformation is immutable; the gradients belong to the training thread.
//
// Use an UpdateRule around another one instead if you need one weight at a time and a slot, as for
// an average of the weights.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {
struct VariableSpec;
}

namespace muster::inline v0_1::optim {

// The gradients of an optimizer in one step, after the mean or sum over replicas; the same on every
// replica.
struct StepGradients {
  // A variable that was used in this step.
  struct Item {
    const VariableSpec* variable = nullptr;
    Tensor weights{};   // the variable's value
    Tensor gradient{};  // of the whole variable, or of `rows` of it; counts as gradient * scale
    Tensor rows{};      // of a row-sparse variable: int64 [n]; undefined for others
  };
  std::string optimizer{};  // its name, for messages
  std::vector<Item> items{};
  double scale = 1.0;
};

class MUSTER_EXPORT GradientTransformation {
 public:
  virtual ~GradientTransformation() = default;
  // "clip_by_global_norm(1)": one line, equal for transformations that do the same.
  virtual std::string describe() const = 0;
  // Changes `scale`, or writes gradients and weights in place. The result may depend only on
  // `step`, so that replicas stay equal. If it throws, it must do so before it writes anything.
  virtual void transform(StepGradients& step) const = 0;
};

}  // namespace muster::inline v0_1::optim
