// Mixed precision of LibTorch's modules: while an Autocast lives, matrix products and convolutions
// compute in 16 bits, as in Python's torch.autocast.
//
//   torch::Tensor loss;
//   {
//     muster::Autocast autocast;  // bfloat16
//     loss = my_loss(net(x), y);
//   }
//   loss.backward();              // parameters and gradients stay float32
//
// Thread safety: belongs to the thread that made it, for whose operations it holds.
#pragma once

#include "muster/base/export.h"
#include "muster/tensor/device.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

class MUSTER_EXPORT Autocast {
 public:
  // For operations on a device of this kind: the CPU, with bfloat16, or a GPU, with bfloat16 or
  // float16 (float16 needs a GradScaler). Which operations compute in 16 bits is LibTorch's list.
  // On processors without AVX512-BF16 or AMX-BF16 instructions bfloat16 is slower than float32.
  // Throws InvalidArgument for other dtypes and devices.
  explicit Autocast(Device device = at::kCPU, DType dtype = kBFloat16);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool on_gpu_;
  const bool was_on_;
  const DType dtype_before_;
};

}  // namespace muster::inline v0_1
