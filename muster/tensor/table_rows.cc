#include "muster/tensor/table_rows.h"

#include <cstring>
#include <type_traits>
#include <vector>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

int64_t elements_of_row(const Tensor& table) { return table.numel() / table.size(0); }

// Shows the part of `joined` that is n rows of the table.
Tensor part_of(const Tensor& joined, int64_t at, int64_t n, const Tensor& table) {
  std::vector<int64_t> shape = table.sizes().vec();
  shape[0] = n;
  return joined.view({-1}).narrow(0, at, n * elements_of_row(table)).view(shape);
}

// Calls copy(row in the table, row in `joined`, bytes) for each. A size that the compiler knows
// makes a copy of few bytes one instruction.
template <typename Copy>
void for_each_row(const Tensor& table, const Tensor& ids, const Tensor& joined, int64_t at,
                  const Copy& copy) {
  const auto element = static_cast<int64_t>(table.element_size());
  const int64_t bytes = elements_of_row(table) * element;
  auto* in_table = static_cast<char*>(table.data_ptr());
  auto* in_joined = static_cast<char*>(joined.data_ptr()) + at * element;
  const auto* id = ids.data_ptr<int64_t>();
  const int64_t n = ids.numel();
  const auto each = [&](const auto size) {
    const auto step = static_cast<int64_t>(size);
    for (int64_t i = 0; i < n; ++i) copy(in_table + id[i] * step, in_joined + i * step, size);
  };
  if (bytes == sizeof(float)) return each(std::integral_constant<size_t, sizeof(float)>());
  each(static_cast<size_t>(bytes));
}

}  // namespace

void read_rows(const Tensor& table, const Tensor& ids, const Tensor& joined, int64_t at) {
  if (ids.numel() == 0) return;
  if (!table.is_cpu()) {
    part_of(joined, at, ids.numel(), table).copy_(table.index_select(0, ids));
    return;
  }
  for_each_row(table, ids, joined, at, [](const char* in_table, char* in_joined, auto size) {
    std::memcpy(in_joined, in_table, size);
  });
}

void write_rows(const Tensor& joined, int64_t at, const Tensor& ids, const Tensor& table) {
  if (ids.numel() == 0) return;
  if (!table.is_cpu()) {
    Tensor(table).index_copy_(0, ids, part_of(joined, at, ids.numel(), table));
    return;
  }
  for_each_row(table, ids, joined, at, [](char* in_table, const char* in_joined, auto size) {
    std::memcpy(in_table, in_joined, size);
  });
  // A graph that saved the table notices.
  table.unsafeGetTensorImpl()->bump_version();
}

}  // namespace muster::inline v0_1
