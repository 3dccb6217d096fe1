#include "muster/tensor/variable.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// Gives "[3, 1]": where element `index` of a flat tensor stands.
std::string place_of(int64_t index, at::IntArrayRef sizes) {
  std::vector<int64_t> place(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0;) {
    place[axis] = index % sizes[axis];
    index /= sizes[axis];
  }
  return describe(place);
}

// Gives the numbers sorted, each once; and for every number its place among these. On the CPU
// sorting is quicker than LibTorch's hash tables.
std::pair<Tensor, Tensor> unique_of(const Tensor& numbers) {
  if (!numbers.is_cpu()) {
    auto [unique, inverse, counts] =
        at::_unique2(numbers, /*sorted=*/true, /*return_inverse=*/true);
    return {std::move(unique), std::move(inverse)};
  }
  struct Numbered {
    int64_t number;
    int64_t place;
  };
  const auto count = static_cast<size_t>(numbers.numel());
  std::vector<Numbered> sorted(count);
  const int64_t* number = numbers.data_ptr<int64_t>();
  for (size_t i = 0; i < count; ++i) sorted[i] = {number[i], static_cast<int64_t>(i)};
  std::sort(sorted.begin(), sorted.end(),
            [](const Numbered& a, const Numbered& b) { return a.number < b.number; });
  Tensor unique = torch::empty_like(numbers), inverse = torch::empty_like(numbers);
  int64_t last = -1;
  for (size_t i = 0; i < count; ++i) {
    if (i == 0 || sorted[i].number != sorted[i - 1].number) {
      unique.data_ptr<int64_t>()[++last] = sorted[i].number;
    }
    inverse.data_ptr<int64_t>()[sorted[i].place] = last;
  }
  return {unique.narrow(0, 0, last + 1), inverse};
}

}  // namespace

std::string VariableSpec::describe() const {
  return name + " " + dtype_name(dtype) + muster::describe(shape) +
         (row_sparse ? " row-sparse" : "");
}

Tensor Variable::rows(const Tensor& ids) {
  if (ids.scalar_type() != kInt64 && ids.scalar_type() != kInt32) {
    throw invalid_argument(
        fmt::format("rows of {} were asked for by {}", spec_.describe(), muster::describe(ids)),
        "numbers of rows are int64 or int32");
  }
  const Tensor here = ids.reshape({-1}).to(kInt64).cpu().contiguous();
  const int64_t* numbers = here.data_ptr<int64_t>();
  const int64_t size = value_.size(0);
  for (int64_t i = 0; i < here.numel(); ++i) {
    if (numbers[i] >= 0 && numbers[i] < size) continue;
    throw invalid_argument(
        fmt::format("the id {} at {} of {} is outside of the table {}: it has {} rows", numbers[i],
                    place_of(i, ids.sizes()), muster::describe(ids), spec_.describe(), size),
        fmt::format("ids go from 0 to {}; make the table larger, or mend the data", size - 1));
  }
  const Tensor flat = value_.is_cpu() ? here : ids.reshape({-1}).to(value_.device(), kInt64);
  // Flat ids need no other shape. A trace would keep their number, which may follow the data.
  const auto shaped = [&](const Tensor& rows) {
    if (ids.dim() == 1) return rows;
    std::vector<int64_t> shape = ids.sizes().vec();
    shape.insert(shape.end(), spec_.shape.begin() + 1, spec_.shape.end());
    return rows.view(shape);
  };
  if (!spec_.row_sparse || !value_.requires_grad() || !torch::GradMode::is_enabled())
    return shaped(value_.index_select(0, flat));
  const auto [unique, inverse] = unique_of(flat);
  Tensor leaf = value_.detach().index_select(0, unique).set_requires_grad(true);
  row_uses_.push_back({unique, leaf});
  return shaped(leaf.index_select(0, inverse));
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
