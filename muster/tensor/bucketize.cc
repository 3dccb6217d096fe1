#include "muster/tensor/bucketize.h"

#include <algorithm>

#include "muster/tensor/libtorch.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1 {
namespace {

// LibTorch's own search wakes its threads for a few hundred numbers.
template <typename Number>
Tensor bins_of(const Tensor& numbers, const std::vector<double>& boundaries) {
  const std::vector<Number> cuts(boundaries.begin(), boundaries.end());
  const Number* number = numbers.data_ptr<Number>();
  Tensor bins = torch::empty(numbers.sizes(), at::TensorOptions(kInt64));
  int64_t* bin = bins.data_ptr<int64_t>();
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    bin[i] = std::upper_bound(cuts.begin(), cuts.end(), number[i]) - cuts.begin();
  }
  return bins;
}

}  // namespace

Tensor bucketize(const Tensor& input, const std::vector<double>& boundaries) {
  const DType dtype = input.scalar_type() == kFloat32 ? kFloat32 : kFloat64;
  const auto options = at::TensorOptions(dtype).device(input.device());
  const Tensor numbers = input.detach().to(options).contiguous();
  Tensor bins;
  if (numbers.is_cpu() && !is_tracing()) {
    bins = dtype == kFloat32 ? bins_of<float>(numbers, boundaries)
                             : bins_of<double>(numbers, boundaries);
  } else {
    const Tensor edges = torch::tensor(boundaries, kFloat64).to(options);
    bins = at::bucketize(numbers, edges, /*out_int32=*/false, /*right=*/true);
  }
  return bins;
}

}  // namespace muster::inline v0_1
