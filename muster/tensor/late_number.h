// A number of a device that is read some time after it was computed, so that the device need not
// wait for the program meanwhile. Thread safety: a LateNumber belongs to one thread.
#pragma once

#include <memory>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

class LateNumber {
 public:
  // Lets the number of a tensor with one element come to the CPU. What this thread lets the device
  // do from now on does not delay it.
  explicit LateNumber(const Tensor& number);
  ~LateNumber();
  LateNumber(LateNumber&&) noexcept;
  LateNumber& operator=(LateNumber&&) noexcept;

  // Returns when it has come.
  double value() const;

 private:
  struct Copied;
  Tensor here_;
  std::unique_ptr<Copied> copied_;  // nothing where the number was on the CPU
};

}  // namespace muster::inline v0_1
