#include "muster/optim/internal/adafactor_update.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "muster/optim/internal/adafactor_kernels.h"
#include "muster/optim/internal/update_anywhere.h"

namespace muster::inline v0_1::optim::internal {
namespace {

double root_mean(double squares, int64_t n) { return std::sqrt(squares / static_cast<double>(n)); }

double alpha_of(const Segment& segment, const AdafactorUpdate& update) {
  if (!update.scale_parameter) return update.rho;
  const double size = root_mean(sum_of_squares(segment.weights), segment.weights.numel());
  return update.rho * std::max(update.epsilon_2, size);
}

// The factor of u, with the sum of its squares.
double rate_of(double alpha, double squares, int64_t n, const AdafactorUpdate& update) {
  return alpha / std::max(1.0, root_mean(squares, n) / update.clip_threshold);
}

// Moves moments towards the means of squares. Returns their mean.
template <typename T>
double move_moments(T* moments, const std::vector<double>& sums, double summands,
                    const AdafactorUpdate& update) {
  double total = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const double mean = sums[i] / summands + update.epsilon_1;
    moments[i] = static_cast<T>(moments[i] + (mean - moments[i]) * update.part);
    total += moments[i];
  }
  return total / static_cast<double>(sums.size());
}

template <typename T>
void update_factored(const Segment& segment, const AdafactorUpdate& update) {
  const int64_t rows = update.rows, columns = update.columns, n = segment.weights.numel();
  const int64_t matrices = n / (rows * columns);
  const double alpha = alpha_of(segment, update);
  T *const vr = segment.slots[0].data_ptr<T>(), *const vc = segment.slots[1].data_ptr<T>();
  const auto gradients = [&](int64_t m) {
    return GradientMatrix<T>{segment.gradient.data_ptr<T>() + m * rows * columns, rows, columns,
                             static_cast<T>(segment.gradient_scale)};
  };
  std::vector<double> row_sums(static_cast<size_t>(rows));
  std::vector<T> row_factors(static_cast<size_t>(matrices * rows));
  std::vector<T> column_factors(static_cast<size_t>(matrices * columns));
  double squares = 0;
  for (int64_t m = 0; m < matrices; ++m) {
    std::vector<double> column_sums(static_cast<size_t>(columns));
    sum_squares(gradients(m), row_sums.data(), column_sums.data());
    const double mean = move_moments(vr + m * rows, row_sums, static_cast<double>(columns), update);
    move_moments(vc + m * columns, column_sums, static_cast<double>(rows), update);
    T *const r = row_factors.data() + m * rows, *const c = column_factors.data() + m * columns;
    for (int64_t i = 0; i < rows; ++i)
      r[i] = static_cast<T>(1 / std::sqrt(vr[m * rows + i] / mean));
    for (int64_t j = 0; j < columns; ++j)
      c[j] = static_cast<T>(1 / std::sqrt(static_cast<double>(vc[m * columns + j])));
    squares += sum_update_squares<T>(gradients(m), r, c);
  }
  const auto rate = static_cast<T>(rate_of(alpha, squares, n, update));
  for (int64_t m = 0; m < matrices; ++m) {
    apply_update<T>(gradients(m), row_factors.data() + m * rows,
                    column_factors.data() + m * columns, rate,
                    segment.weights.data_ptr<T>() + m * rows * columns);
  }
}

template <typename T>
void update_whole(const Segment& segment, const AdafactorUpdate& update) {
  const int64_t n = segment.weights.numel();
  const double alpha = alpha_of(segment, update);
  const T* const g = segment.gradient.data_ptr<T>();
  const auto scale = static_cast<T>(segment.gradient_scale);
  T* const v = segment.slots[0].data_ptr<T>();
  const double squares = moment_and_update_squares<T>(g, n, scale, static_cast<T>(update.epsilon_1),
                                                      static_cast<T>(update.part), v);
  apply_update<T>(g, n, scale, v, static_cast<T>(rate_of(alpha, squares, n, update)),
                  segment.weights.data_ptr<T>());
}

}  // namespace

void adafactor_on_cpu(const Segment& segment, const AdafactorUpdate& update) {
  with_weight_type(segment.weights.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    if (update.rows > 0) {
      update_factored<T>(segment, update);
    } else {
      update_whole<T>(segment, update);
    }
  });
  mark_written(segment.weights);
}

void adafactor_on_tensors(const Segment& segment, const AdafactorUpdate& update) {
  at::NoGradGuard no_grad;
  const double alpha = alpha_of(segment, update);
  Tensor g = segment.gradient.mul(segment.gradient_scale), u;
  if (update.rows > 0) {
    g = g.view({-1, update.rows, update.columns});
    const Tensor squares = g.square().add_(update.epsilon_1);
    const Tensor vr = segment.slots[0].view({-1, update.rows});
    const Tensor vc = segment.slots[1].view({-1, update.columns});
    vr.lerp_(squares.mean(-1), update.part);
    vc.lerp_(squares.mean(-2), update.part);
    const Tensor rows = vr.div(vr.mean(-1, /*keepdim=*/true)).rsqrt_();
    u = g.mul(rows.unsqueeze(-1)).mul_(vc.rsqrt().unsqueeze(-2)).view({-1});
  } else {
    const Tensor& v = segment.slots[0];
    v.lerp_(g.square().add_(update.epsilon_1), update.part);
    u = g.div(v.sqrt());
  }
  segment.weights.sub_(u, rate_of(alpha, sum_of_squares(u), u.numel(), update));
}

}  // namespace muster::inline v0_1::optim::internal
