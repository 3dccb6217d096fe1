// Gives a layer the destination for the gradient of a parameter. A layer whose backward writes it
// there saves a copy. Thread safety: a scope holds for one thread, the one backward runs on.
#pragma once

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// A class that has memory for gradients implements this.
class GradientDestinations {
 public:
  virtual ~GradientDestinations() = default;

  // Returns contiguous memory of the shape of `parameter` for its gradient. No other code holds
  // this tensor, so autograd keeps it as it is. It is undefined if no gradient is wanted there, and
  // at the second call in one backward.
  virtual Tensor take(const Tensor& parameter) = 0;

  // While a Scope lives, take_gradient_destination() on this thread asks its destinations.
  class Scope {
   public:
    explicit Scope(GradientDestinations& destinations);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    GradientDestinations* outer_;
  };
};

// Calls take() of the innermost Scope of this thread. It is undefined if there is no Scope.
Tensor take_gradient_destination(const Tensor& parameter);

}  // namespace muster::inline v0_1
