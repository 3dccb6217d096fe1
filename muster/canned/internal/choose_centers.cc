#include "muster/canned/internal/choose_centers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

Tensor squared_distances(const Tensor& points, int64_t row) {
  return (points - points[row]).square().sum(1);
}

// Draws a row with probabilities proportional to `weights`, of which `sums` are the running sums.
int64_t draw(const Tensor& sums, Random& random) {
  const auto* begin = sums.data_ptr<double>();
  const auto* end = begin + sums.numel();
  const double total = end[-1];
  // All points are among the centers already: any of them is as good.
  if (!(total > 0)) return static_cast<int64_t>(random.uniform_below(sums.numel()));
  const auto* found = std::upper_bound(begin, end, random.uniform() * total);
  return std::min<int64_t>(found - begin, sums.numel() - 1);
}

}  // namespace

Tensor random_centers(const Tensor& points, int64_t count, RandomKey key) {
  const int64_t rows = points.size(0);
  if (rows <= count) return points;
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  Random random(key);
  for (int64_t i = 0; i < count; ++i) {
    const auto other = i + static_cast<int64_t>(random.uniform_below(rows - i));
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(other)]);
  }
  order.resize(static_cast<size_t>(count));
  return points.index_select(0, torch::tensor(order, at::kLong));
}

Tensor plus_plus_centers(const Tensor& points, int64_t count, int64_t retries, RandomKey key) {
  const Tensor wide = points.to(at::kDouble);
  if (retries < 0) retries = 2 + static_cast<int64_t>(std::log(static_cast<double>(count)));
  Random random(key);
  std::vector<int64_t> chosen{static_cast<int64_t>(random.uniform_below(points.size(0)))};
  Tensor nearest = squared_distances(wide, chosen.front());
  while (static_cast<int64_t>(chosen.size()) < count) {
    const Tensor sums = nearest.cumsum(0).contiguous();
    double least = std::numeric_limits<double>::infinity();
    Tensor best;
    int64_t next = 0;
    for (int64_t i = 0; i <= retries; ++i) {
      const int64_t row = draw(sums, random);
      const Tensor with = at::minimum(nearest, squared_distances(wide, row));
      const double sum = with.sum().item<double>();
      if (best.defined() && !(sum < least)) continue;
      least = sum;
      best = with;
      next = row;
    }
    chosen.push_back(next);
    nearest = best;
  }
  return points.index_select(0, torch::tensor(chosen, at::kLong));
}

}  // namespace muster::inline v0_1::internal
