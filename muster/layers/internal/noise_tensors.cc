#include "muster/layers/internal/noise_tensors.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/weight_dtype.h"

namespace muster::inline v0_1::internal {
namespace {

// Makes a tensor that `fill(data, count)` fills in float64, or in float32 for all other dtypes.
template <typename Fill>
Tensor filled_as(const Tensor& like, at::IntArrayRef shape, Fill fill) {
  const DType dtype = like.scalar_type() == kFloat64 ? kFloat64 : kFloat32;
  Tensor values = at::empty(shape, dtype);
  with_weight_type(dtype,
                   [&](auto zero) { fill(values.data_ptr<decltype(zero)>(), values.numel()); });
  return values.to(like.device(), like.scalar_type());
}

}  // namespace

Tensor drop_mask(const Tensor& like, at::IntArrayRef shape, RandomKey key, double rate,
                 double kept) {
  return filled_as(like, shape, [&](auto* mask, int64_t n) {
    using T = std::remove_pointer_t<decltype(mask)>;
    const T scale = static_cast<T>(kept);
    const auto threshold = static_cast<uint64_t>(std::ldexp(rate, 32));
    Random random(key);
    for (int64_t i = 0; i < n; ++i) mask[i] = random.next_u32() < threshold ? T{0} : scale;
  });
}

Tensor normal_noise(const Tensor& like, RandomKey key, double mean, double stddev) {
  return filled_as(like, like.sizes(), [&](auto* noise, int64_t n) {
    using T = std::remove_pointer_t<decltype(noise)>;
    Random random(key);
    for (int64_t i = 0; i < n; ++i) noise[i] = static_cast<T>(mean + stddev * random.normal());
  });
}

void check_rate(const std::string& layer, double rate, const char* field) {
  if (rate >= 0 && rate < 1) return;
  throw invalid_argument(fmt::format("{}: {} is {}", layer, field, rate),
                         fmt::format("{} must be at least 0 and below 1", field));
}

}  // namespace muster::inline v0_1::internal
