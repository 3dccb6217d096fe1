// A number of a device that is read some time after it was computed, so that the device need not
// wait for the program meanwhile. Thread safety: a AsyncScalar belongs to one thread.
#pragma once

#include <memory>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

class AsyncScalar {
 public:
  // Copies the number of a tensor with one element to the CPU, as it is now. Later work of this
  // thread on the device does not delay it.
  explicit AsyncScalar(const Tensor& number);
  ~AsyncScalar();
  AsyncScalar(AsyncScalar&&) noexcept;
  AsyncScalar& operator=(AsyncScalar&&) noexcept;

  // Returns when it has come.
  double value() const;

 private:
  struct Copied;
  double number_ = 0;               // if it was on the CPU
  std::unique_ptr<Copied> copied_;  // if it was not
};

}  // namespace muster::inline v0_1
