#include "muster/preprocessing/internal/encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {

std::string name_of(OutputMode mode) {
  switch (mode) {
    case OutputMode::kInt:
      return "kInt";
    case OutputMode::kOneHot:
      return "kOneHot";
    case OutputMode::kMultiHot:
      return "kMultiHot";
    case OutputMode::kCount:
      return "kCount";
    case OutputMode::kTfIdf:
      return "kTfIdf";
  }
  return fmt::format("OutputMode({})", static_cast<int>(mode));
}

void check_output_mode(const char* layer, OutputMode mode,
                       std::initializer_list<OutputMode> known) {
  if (std::find(known.begin(), known.end(), mode) != known.end()) return;
  std::vector<std::string> names;
  for (const OutputMode one : known) names.push_back(name_of(one));
  throw invalid_argument(fmt::format("{}: output_mode is {}", layer, name_of(mode)),
                         fmt::format("output_mode is one of {}", join(names, ", ")));
}

Tensor encode(const Tensor& ids, OutputMode mode, int64_t depth, const Tensor& weights) {
  if (mode == OutputMode::kInt) return ids;
  Shape lead = ids.sizes().vec();
  int64_t n = 1;  // how many numbers make one vector
  const bool each_alone =
      mode == OutputMode::kOneHot && !lead.empty() && (lead.size() == 1 || lead.back() != 1);
  if (!lead.empty() && !each_alone) {
    n = lead.back();
    lead.pop_back();
  }
  const int64_t rows = c10::multiply_integers(lead);
  const Tensor flat = ids.reshape({rows, n});
  // Numbers that do not count go into a column that is cut off.
  const Tensor places = flat.masked_fill((flat < 0).logical_or(flat >= depth), depth);
  const auto floats = at::TensorOptions(kFloat32).device(ids.device());
  const Tensor amounts =
      weights.defined() ? weights.to(floats).reshape({rows, n}) : torch::ones({rows, n}, floats);
  Tensor sums = torch::zeros({rows, depth + 1}, floats);
  sums.scatter_add_(1, places, amounts);
  sums = sums.narrow(1, 0, depth);
  if (mode == OutputMode::kOneHot || mode == OutputMode::kMultiHot) sums = sums.gt(0).to(kFloat32);
  lead.push_back(depth);
  return sums.reshape(lead);
}

}  // namespace muster::inline v0_1::internal
