#include "muster/checkpoint/widened_tensor.h"

#include <fmt/format.h>

#include <limits>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

template <typename From, typename To>
Tensor widen(Bytes bytes, DType dtype, const Shape& shape, const std::string& name) {
  Tensor tensor = torch::empty(shape, dtype);
  To* out = tensor.data_ptr<To>();
  for (size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    const From number = load_little_endian<From>(bytes.data() + i * sizeof(From));
    if (number > static_cast<uint64_t>(std::numeric_limits<To>::max())) {
      throw invalid_argument(
          fmt::format("not supported: the tensor '{}' is uint64 and holds {}", name, number),
          "LibTorch has no uint64: keep numbers up to 9223372036854775807, as int64");
    }
    out[i] = static_cast<To>(number);
  }
  return tensor;
}

}  // namespace

Tensor widened_tensor(Bytes bytes, size_t bytes_each, const Shape& shape, const std::string& name) {
  switch (bytes_each) {
    case sizeof(uint16_t):
      return widen<uint16_t, int32_t>(bytes, at::kInt, shape, name);
    case sizeof(uint32_t):
      return widen<uint32_t, int64_t>(bytes, at::kLong, shape, name);
    default:
      return widen<uint64_t, int64_t>(bytes, at::kLong, shape, name);
  }
}

}  // namespace muster::inline v0_1
