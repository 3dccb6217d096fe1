// Tells a layer where the gradient of a parameter is wanted. A layer whose backward writes it there
// saves a copy. Thread safety: a scope holds for one thread, the one backward runs on.
#pragma once

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Implemented by owners of memory for gradients.
class GradientDestinations {
 public:
  virtual ~GradientDestinations() = default;

  // Gives contiguous memory of the shape of `parameter` for its gradient. No other code holds this
  // tensor, so autograd keeps it as it is. It is undefined when no gradient is wanted there, and
  // the second time it is asked for in one backward.
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

// Calls take() of the innermost Scope of this thread. It is undefined where there is no Scope.
Tensor take_gradient_destination(const Tensor& parameter);

}  // namespace muster::inline v0_1
