// Where the gradient of a parameter is wanted: a layer whose backward writes it there saves the
// copy that would bring it there. Thread safety: what is in force belongs to one thread, the one
// backward runs on.
#pragma once

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Who has memory for gradients.
class GradientDestinations {
 public:
  virtual ~GradientDestinations() = default;

  // Memory for the gradient of `parameter`, of its shape and contiguous: a tensor nobody else
  // holds, so that autograd keeps it as it is. Undefined when none is wanted, and the second time
  // it is asked for in one backward.
  virtual Tensor take(const Tensor& parameter) = 0;

  // While one lives, they are in force on this thread.
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

// take() of those in force; undefined where there are none.
Tensor take_gradient_destination(const Tensor& parameter);

}  // namespace muster::inline v0_1
