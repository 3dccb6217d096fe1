#include "muster/train/optimizer_tensors.h"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "muster/base/error.h"
#include "muster/optim/exponential_moving_average.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

std::optional<std::string> optimizer_of_counter(const std::string& name, const Tensor& tensor) {
  constexpr std::string_view kCounter = "/iterations";
  if (!name.ends_with(kCounter) || tensor.dim() != 0 || tensor.scalar_type() != at::kLong)
    return std::nullopt;
  return name.substr(0, name.size() - kCounter.size());
}

void use_moving_averages(Checkpoint& checkpoint, const std::string& source) {
  auto& tensors = checkpoint.tensors;
  std::map<std::string, Tensor> averages;
  for (const auto& [name, tensor] : tensors) {
    const std::optional<std::string> optimizer = optimizer_of_counter(name, tensor);
    if (!optimizer) continue;
    const std::string prefix = fmt::format("{}/{}/", *optimizer, optim::kAverageSlot);
    for (auto slot = tensors.lower_bound(prefix);
         slot != tensors.end() && slot->first.starts_with(prefix); ++slot) {
      const std::string variable = slot->first.substr(prefix.size());
      if (tensors.contains(variable)) averages[variable] = slot->second;
    }
  }
  if (averages.empty()) {
    throw invalid_argument(
        fmt::format("{} holds no moving averages of weights", source),
        "train with optim::exponential_moving_average(), or leave use_ema at false");
  }
  for (const auto& [variable, average] : averages) tensors[variable] = average;
}

}  // namespace muster::inline v0_1
