#include "muster/canned/internal/center_sums.h"

#include <array>
#include <numeric>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// One pass over the points of a CPU, without a copy of them that is twice as wide.
void add_points(const Tensor& points, const Tensor& centers, const Tensor& index, bool cosine,
                const Tensor& sums) {
  const int64_t rows = points.size(0), width = points.size(1);
  const Tensor x = points.contiguous(), c = centers.contiguous();
  const auto* point = x.data_ptr<float>();
  const auto* which = index.data_ptr<int64_t>();
  auto* out = sums.data_ptr<double>();
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r, point += width) {
    const auto* center = c.data_ptr<float>() + which[r] * width;
    double* row = out + (which[r] + 1) * (width + 1);
    constexpr int64_t kLanes = 8;  // so that the compiler may add several at once
    std::array<double, kLanes> parts{};
    const auto add = [&](int64_t i, size_t lane) {
      row[i] += point[i];
      const double a = point[i], b = center[i];
      parts[lane] += cosine ? a * b : (a - b) * (a - b);
    };
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) add(i + lane, static_cast<size_t>(lane));
    }
    for (; i < width; ++i) add(i, 0);
    row[width] += 1;
    const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
    loss += cosine ? 1 - sum : sum;
  }
  *out += loss;
}

}  // namespace

Tensor normalized(const Tensor& rows) {
  return rows / rows.square().sum(1, /*keepdim=*/true).clamp_min(1e-12).sqrt();
}

Tensor nearest_centers(const Tensor& points, const Tensor& centers, bool cosine) {
  if (cosine) return points.matmul(centers.t()).argmax(1);
  // |x - c|^2 without |x|^2, which is the same for all centers; around their middle, where fewer
  // digits cancel.
  const Tensor wide = centers.to(at::kDouble), middle = wide.mean(0), shifted = wide - middle;
  const Tensor rest = shifted.square().sum(1) + 2 * shifted.matmul(middle);
  return at::addmm(rest.to(at::kFloat), points, shifted.to(at::kFloat).t(), 1, -2).argmin(1);
}

Tensor distances_to(const Tensor& points, const Tensor& centers, bool cosine) {
  if (cosine) return 1 - (points * centers).sum(1);
  return (points - centers).square().sum(1);
}

Tensor sums_of(const Tensor& points, const Tensor& centers, const Tensor& index, bool cosine,
               int64_t clusters) {
  const Tensor sums =
      at::zeros({clusters + 1, points.size(1) + 1}, points.options().dtype(at::kDouble));
  if (points.device().is_cpu()) {
    add_points(points, centers, index, cosine, sums);
    return sums;
  }
  const Tensor ones = at::ones({points.size(0), 1}, sums.options());
  sums.index_add_(0, index + 1, at::cat({points.to(at::kDouble), ones}, 1));
  sums[0][0].copy_(
      distances_to(points, centers.index_select(0, index), cosine).to(at::kDouble).sum());
  return sums;
}

}  // namespace muster::inline v0_1::internal
