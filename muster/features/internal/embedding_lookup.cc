#include "muster/features/internal/embedding_lookup.h"

#include "muster/tensor/libtorch.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1::feature_column::internal {
namespace {

// One 0 for each example, [batch, 1]: its size follows the batch also if this is traced.
Tensor zero_of_rows(const Tensor& ids, DType dtype) {
  return at::zeros_like(ids.sum(/*dim=*/1, /*keepdim=*/true), at::TensorOptions(dtype));
}

// Norm means L2. By the square no gradient is divided by 0.
Tensor shortened(const Tensor& rows, double max_norm) {
  const Tensor squares = rows.square().sum(/*dim=*/1, /*keepdim=*/true);
  return rows * (max_norm / squares.clamp_min(max_norm * max_norm).sqrt());
}

// The results of `flat` for each step of [batch, steps, values], as for a row.
template <typename Function>
Tensor by_step(const ColumnValues& given, const Function& flat) {
  const Tensor& ids = given.values;
  const Tensor all = flat(ColumnValues{.values = ids.flatten(0, 1)});
  if (is_tracing()) return all.unflatten(0, {-1, ids.size(1)});
  return all.view({ids.size(0), ids.size(1), all.size(1)});
}

}  // namespace

Tensor combined_rows(const ColumnValues& given, Combiner combiner, const RowsOfIds& rows,
                     std::optional<double> max_norm) {
  const Tensor& ids = given.values;
  if (ids.dim() == 3) {
    return by_step(given, [&](const ColumnValues& steps) {
      return combined_rows(steps, combiner, rows, max_norm);
    });
  }
  Tensor counts = ids.ge(0);
  if (given.weights.defined() && combiner != Combiner::kSum) {
    counts = counts.logical_and(given.weights.gt(0));
  }
  // One id for each example needs no sums.
  if (!is_tracing() && !given.weights.defined() && ids.size(1) == 1 && counts.all().item<bool>()) {
    const Tensor single = rows(ids.select(1, 0));
    return max_norm ? shortened(single, *max_norm) : single;
  }
  const Tensor example = counts.nonzero().select(1, 0);
  Tensor found = rows(ids.masked_select(counts));
  if (max_norm) found = shortened(found, *max_norm);
  const Tensor zero = zero_of_rows(ids, found.scalar_type());
  Tensor weight;
  if (given.weights.defined()) {
    weight = given.weights.to(found.scalar_type()).masked_select(counts).unsqueeze(1);
    found = found * weight;
  }
  const Tensor sums = zero.repeat({1, found.size(1)}).index_add(0, example, found);
  if (combiner == Combiner::kSum) return sums;
  if (!weight.defined()) weight = at::ones_like(example, zero.options()).unsqueeze(1);
  const bool mean = combiner == Combiner::kMean;
  const Tensor total = zero.index_add(0, example, mean ? weight : weight.square());
  const Tensor divisor = at::where(total.gt(0), mean ? total : total.sqrt(), at::ones_like(total));
  return sums / divisor;
}

Tensor counted_ids(const ColumnValues& given, int64_t buckets) {
  const Tensor& ids = given.values;
  if (ids.dim() == 3) {
    return by_step(given, [&](const ColumnValues& steps) { return counted_ids(steps, buckets); });
  }
  // Ids that do not count go into a column that is cut off.
  const Tensor places = ids.masked_fill(ids.lt(0).logical_or(ids.ge(buckets)), buckets);
  const Tensor zero = zero_of_rows(ids, kFloat32);
  const Tensor amounts =
      given.weights.defined() ? given.weights.to(kFloat32) : at::ones_like(ids, zero.options());
  return zero.repeat({1, buckets + 1}).scatter_add(1, places, amounts).narrow(1, 0, buckets);
}

}  // namespace muster::inline v0_1::feature_column::internal
