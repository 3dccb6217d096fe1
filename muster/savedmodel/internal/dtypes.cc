#include "muster/savedmodel/internal/dtypes.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <limits>

#include "muster/base/bytes.h"
#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

using tensorflow::BundleDtype;

struct DtypeRow {
  ::onnx::TensorProto_DataType onnx;
  DType torch;
  BundleDtype tensorflow;
};
constexpr DtypeRow kDtypes[] = {
    {::onnx::TensorProto::FLOAT, at::kFloat, BundleDtype::kFloat},
    {::onnx::TensorProto::DOUBLE, at::kDouble, BundleDtype::kDouble},
    {::onnx::TensorProto::FLOAT16, at::kHalf, BundleDtype::kHalf},
    {::onnx::TensorProto::BFLOAT16, at::kBFloat16, BundleDtype::kBfloat16},
    {::onnx::TensorProto::INT64, at::kLong, BundleDtype::kInt64},
    {::onnx::TensorProto::INT32, at::kInt, BundleDtype::kInt32},
    {::onnx::TensorProto::INT16, at::kShort, BundleDtype::kInt16},
    {::onnx::TensorProto::INT8, at::kChar, BundleDtype::kInt8},
    {::onnx::TensorProto::UINT8, at::kByte, BundleDtype::kUint8},
    {::onnx::TensorProto::BOOL, at::kBool, BundleDtype::kBool},
};

}  // namespace

BundleDtype tensorflow_dtype(int onnx_dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.onnx == onnx_dtype) return row.tensorflow;
  }
  throw invalid_argument(
      fmt::format("not supported: SavedModel: a tensor of ONNX's dtype {}", onnx_dtype));
}

BundleDtype tensorflow_dtype(DType dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.torch == dtype) return row.tensorflow;
  }
  throw invalid_argument(
      fmt::format("not supported: SavedModel: a tensor of dtype {}", dtype_name(dtype)));
}

bool is_float(BundleDtype dtype) {
  return dtype == BundleDtype::kFloat || dtype == BundleDtype::kDouble ||
         dtype == BundleDtype::kHalf || dtype == BundleDtype::kBfloat16;
}

std::string bytes_of_number(double number, BundleDtype dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.tensorflow != dtype) continue;
    const Tensor value = torch::tensor(number, at::kDouble).to(row.torch);
    return {static_cast<const char*>(value.data_ptr()), static_cast<size_t>(value.nbytes())};
  }
  throw invalid_argument("not supported: SavedModel: a number of this dtype");
}

std::string bytes_in_order(std::string_view bytes, const std::vector<int64_t>& shape,
                           const std::vector<int64_t>& axes) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  if (count == 0) return "";
  // Bytes of an element are the last axis.
  std::vector<int64_t> sizes = shape, order = axes;
  sizes.push_back(static_cast<int64_t>(bytes.size()) / count);
  order.push_back(static_cast<int64_t>(shape.size()));
  const Tensor all = torch::from_blob(const_cast<char*>(bytes.data()), sizes, at::kByte);
  const Tensor ordered = all.permute(order).contiguous();
  return {static_cast<const char*>(ordered.data_ptr()), static_cast<size_t>(ordered.nbytes())};
}

int32_t checked_int32(int64_t number) {
  if (number < std::numeric_limits<int32_t>::min() || number > std::numeric_limits<int32_t>::max())
    throw invalid_argument(
        fmt::format("not supported: SavedModel: the position {}, beyond int32", number));
  return static_cast<int32_t>(number);
}

}  // namespace muster::inline v0_1::saved_model::internal
