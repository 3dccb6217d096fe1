#include "muster/tensor/variable.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/tensor/host_copy.h"
#include "muster/tensor/internal/unique_numbers.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/table_rows.h"

namespace muster::inline v0_1 {
namespace {

// Returns "[3, 1]": the place of element `index` of a flat tensor.
std::string place_of(int64_t index, at::IntArrayRef sizes) {
  std::vector<int64_t> place(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0;) {
    place[axis] = index % sizes[axis];
    index /= sizes[axis];
  }
  return describe(place);
}

// Returns the numbers as int64, contiguous, on the CPU. Throws unless they are rows of the table,
// or, if `none` is allowed, below 0.
Tensor checked_ids(const VariableSpec& spec, int64_t size, const Tensor& ids, bool none) {
  if (ids.scalar_type() != kInt64 && ids.scalar_type() != kInt32) {
    throw invalid_argument(
        fmt::format("rows of {} were asked for by {}", spec.describe(), muster::describe(ids)),
        "numbers of rows are int64 or int32");
  }
  const bool as_it_is = ids.is_cpu() && ids.scalar_type() == kInt64 && ids.is_contiguous();
  Tensor here = as_it_is ? ids : on_host(ids).to(kInt64).contiguous();
  const int64_t* numbers = here.data_ptr<int64_t>();
  for (int64_t i = 0; i < here.numel(); ++i) {
    if ((numbers[i] >= 0 || none) && numbers[i] < size) continue;
    throw invalid_argument(
        fmt::format("the id {} at {} of {} is outside of the table {}: it has {} rows", numbers[i],
                    place_of(i, ids.sizes()), muster::describe(ids), spec.describe(), size),
        fmt::format("ids go from 0 to {}; make the table larger, or mend the data", size - 1));
  }
  return here;
}

}  // namespace

std::string VariableSpec::describe() const {
  return name + " " + dtype_name(dtype) + muster::describe(shape) +
         (row_sparse ? " row-sparse" : "");
}

bool Variable::notes_uses() const {
  return spec_.row_sparse && value_.requires_grad() && torch::GradMode::is_enabled();
}

Variable::PlacedRows Variable::use(const Tensor& ids, bool noted) {
  auto [numbers, places] = internal::unique_numbers(ids, value_.size(0));
  Tensor leaf;
  if (reader_) {
    leaf = reader_(numbers);
  } else if (value_.is_cpu()) {
    Shape shape = spec_.shape;
    shape[0] = numbers.numel();
    leaf = at::empty(shape, value_.options());
    read_rows(value_, numbers, leaf, 0);
  } else {
    leaf = value_.detach().index_select(0, numbers);
  }
  if (noted) {
    leaf.set_requires_grad(true);
    row_uses_.push_back({std::move(numbers), leaf});
  }
  return {std::move(leaf), std::move(places)};
}

Tensor Variable::rows(const Tensor& ids) {
  const Tensor here = checked_ids(spec_, value_.size(0), ids, /*none=*/false);
  const Tensor flat =
      value_.is_cpu() ? here.view({-1}) : ids.reshape({-1}).to(value_.device(), kInt64);
  // Flat ids need no other shape. A trace would keep their number, which may follow the data.
  const auto shaped = [&](const Tensor& rows) {
    if (ids.dim() == 1) return rows;
    std::vector<int64_t> shape = ids.sizes().vec();
    shape.insert(shape.end(), spec_.shape.begin() + 1, spec_.shape.end());
    return rows.view(shape);
  };
  const bool noted = notes_uses();
  if (!noted && !reader_) return shaped(value_.index_select(0, flat));
  const PlacedRows used = use(flat, noted);
  return shaped(used.rows.index_select(0, used.places));
}

Variable::PlacedRows Variable::placed_rows(const Tensor& ids) {
  if (!value_.is_cpu()) throw internal_error("rows of " + spec_.describe() + " are not on the CPU");
  Tensor here = checked_ids(spec_, value_.size(0), ids, /*none=*/true);
  const bool noted = notes_uses();
  if (!noted && !reader_) return {value_, std::move(here)};
  return use(here, noted);
}

Tensor regularization_loss(const VariableStore& variables) {
  const torch::NoGradGuard no_grad;
  Tensor sum;
  for (const auto& variable : variables.variables()) {
    if (!variable->spec().regularizer) continue;
    const Tensor penalty = variable->spec().regularizer(variable->value().detach()).to(kFloat64);
    sum = sum.defined() ? sum + penalty : penalty;
  }
  return sum;
}

}  // namespace muster::inline v0_1
