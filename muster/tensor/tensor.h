// Tensor is LibTorch's: n-dimensional, reference counted, with autograd. Images are [batch, height,
// width, channels]. This header has methods and operators; for LibTorch's other functions
// (at::zeros, torch::cat) include <ATen/ATen.h> or <torch/torch.h>.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/operators.h"

namespace muster::inline v0_1 {

// LibTorch's tensor.
using Tensor = at::Tensor;
// LibTorch's scalar type. Models use the names below.
using DType = at::ScalarType;
// The size of each axis; empty for a scalar.
using Shape = std::vector<int64_t>;

inline constexpr DType kFloat32 = at::ScalarType::Float;
inline constexpr DType kFloat64 = at::ScalarType::Double;
inline constexpr DType kBFloat16 = at::ScalarType::BFloat16;
inline constexpr DType kInt32 = at::ScalarType::Int;
inline constexpr DType kInt64 = at::ScalarType::Long;
inline constexpr DType kUInt8 = at::ScalarType::Byte;

// Returns "float32[64, 28, 28, 1]", for messages.
MUSTER_EXPORT std::string describe(const Tensor& tensor);
MUSTER_EXPORT std::string describe(const Shape& shape);
// Returns numpy's name: "float32", "int64", ...
MUSTER_EXPORT std::string dtype_name(DType dtype);

}  // namespace muster::inline v0_1
