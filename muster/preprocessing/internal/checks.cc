#include "muster/preprocessing/internal/checks.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {

void check_at_least(const char* layer, const char* field, int64_t value, int64_t least) {
  if (value >= least) return;
  throw invalid_argument(fmt::format("{}: {} is {}", layer, field, value),
                         fmt::format("{} must be at least {}", field, least));
}

Tensor to_int64(const Tensor& input, const char* layer) {
  if (input.defined() && at::isIntegralType(input.scalar_type(), /*includeBool=*/false))
    return input.to(kInt64);
  throw invalid_argument(fmt::format("{}: expected integers, was given {}", layer,
                                     input.defined() ? describe(input) : "an undefined tensor"));
}

}  // namespace muster::inline v0_1::internal
