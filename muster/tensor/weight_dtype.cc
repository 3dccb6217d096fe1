#include "muster/tensor/weight_dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "muster/base/error.h"

namespace muster::inline v0_1 {
namespace {

// In the order of the flat buffers.
constexpr std::array<DType, 2> kWeightDtypes{kFloat32, kFloat64};

}  // namespace

bool is_weight_dtype(DType dtype) {
  return std::find(kWeightDtypes.begin(), kWeightDtypes.end(), dtype) != kWeightDtypes.end();
}

std::string weight_dtype_names() {
  std::string names;
  for (const DType dtype : kWeightDtypes)
    names += (names.empty() ? "" : " or ") + dtype_name(dtype);
  return names;
}

int weight_dtype_order(DType dtype) {
  const auto* const found = std::find(kWeightDtypes.begin(), kWeightDtypes.end(), dtype);
  if (found == kWeightDtypes.end()) {
    throw invalid_argument(fmt::format("weights of {} cannot train", dtype_name(dtype)),
                           "weights are " + weight_dtype_names());
  }
  return static_cast<int>(found - kWeightDtypes.begin());
}

}  // namespace muster::inline v0_1
