#include "muster/parallel/internal/weight_sample.h"

#include <algorithm>
#include <cmath>

#include "muster/tensor/libtorch.h"
#include "muster/tensor/weight_dtype.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr int64_t kSampled = 64;
constexpr double kRounding = 1.0 / 65536;  // of the mean size
constexpr double kSmall = 1.0 / 1024;      // added to it: numbers near 0 may differ by more

double mean_size(const Tensor& numbers) {
  if (!numbers.is_cpu()) return numbers.abs().mean(at::kDouble).item<double>();
  return with_weight_type(numbers.scalar_type(), [&](auto type) {
    const auto* const values = numbers.data_ptr<decltype(type)>();
    double sum = 0;
    for (int64_t i = 0; i < numbers.numel(); ++i) sum += std::abs(static_cast<double>(values[i]));
    return sum / static_cast<double>(numbers.numel());
  });
}

}  // namespace

WeightSample sample_weights(const std::vector<std::pair<std::string, Tensor>>& weights,
                            int64_t number) {
  const auto count = static_cast<int64_t>(weights.size());
  const auto& [name, weight] = weights[static_cast<size_t>(number % count)];
  if (weight.numel() == 0 || !weight.is_non_overlapping_and_dense()) return {};
  const torch::NoGradGuard no_grad;
  const int64_t begin = number / count * kSampled % weight.numel();
  const int64_t numbers = std::min(kSampled, weight.numel() - begin);
  WeightSample sample{.name = name,
                      .size = mean_size(weight.detach().as_strided(
                          {numbers}, {1}, weight.storage_offset() + begin))};
  if (!std::isfinite(sample.size)) return sample;
  const double unit = std::log2(1 + kRounding) / WeightSample::kTolerance;
  sample.code = std::llround(std::log2(sample.size + kSmall) / unit);
  return sample;
}

}  // namespace muster::inline v0_1::internal
