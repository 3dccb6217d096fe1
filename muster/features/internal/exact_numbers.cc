#include "muster/features/internal/exact_numbers.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/float_fit.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1::feature_column::internal {
namespace {

// While a model is traced there are no numbers to look at.
bool any_is_lost(const Tensor& exact) {
  if (exact.scalar_type() != kFloat64 || is_tracing() || !exact.is_cpu()) return false;
  const Tensor numbers = exact.contiguous();
  const double* number = numbers.data_ptr<double>();
  return std::any_of(number, number + numbers.numel(), is_lost_in_float);
}

}  // namespace

Tensor exact_numbers(const Tensor& given) {
  const DType dtype = given.scalar_type();
  const bool may_be_large = dtype == kFloat64 || dtype == kInt64 || dtype == kInt32;
  return given.to(may_be_large ? kFloat64 : kFloat32);
}

Tensor as_floats(const Tensor& exact, const std::string& column) {
  if (any_is_lost(exact)) {
    log::warning_once(fmt::format(
        "the column '{}' converts numbers above 16,777,216 to float32, which rounds them, so that "
        "different numbers become equal: shift them towards 0 in a normalizer_fn (x - 20180101), "
        "use a bucketized_column(), or treat them as categories",
        printable_beginning(column)));
  }
  return exact.to(kFloat32);
}

void check_dtype_of_requests(const Tensor& exact, DType dtype, const std::string& column) {
  if (dtype == kFloat64 || dtype == kInt64 || !any_is_lost(exact)) return;
  log::warning_once(fmt::format(
      "the column '{}' reads numbers above 16,777,216, but its dtype is {}: the exported model "
      "would round them in requests; set .dtype = kInt64 or kFloat64 for numeric_column()",
      printable_beginning(column), muster::dtype_name(dtype)));
}

}  // namespace muster::inline v0_1::feature_column::internal
