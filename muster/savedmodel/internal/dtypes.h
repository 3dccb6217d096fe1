// ONNX's dtypes as TensorFlow's, and numbers as the bytes of a dtype. Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/bundles/tensor_bundle.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::saved_model::internal {

// For a number of ONNX's TensorProto::DataType. Throws InvalidArgument for one that TensorFlow
// lacks.
tensorflow::BundleDtype tensorflow_dtype(int onnx_dtype);
// For a dtype of LibTorch. Throws the same.
tensorflow::BundleDtype tensorflow_dtype(DType dtype);

bool is_float(tensorflow::BundleDtype dtype);

// A number in this dtype, little-endian.
std::string bytes_of_number(double number, tensorflow::BundleDtype dtype);

// The bytes of a tensor of this shape with its axes in another order.
std::string bytes_in_order(std::string_view bytes, const std::vector<int64_t>& shape,
                           const std::vector<int64_t>& axes);

// Throws InvalidArgument for a number that does not fit.
int32_t checked_int32(int64_t number);

}  // namespace muster::inline v0_1::saved_model::internal
