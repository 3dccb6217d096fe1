#include "muster/data/internal/collate.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {
namespace {

// Whether rows of `a` and `b` can be copied into one batch byte by byte.
bool same_rows(const Element& a, const Element& b) {
  if (!(a.structure() == b.structure())) return false;
  for (size_t v = 0; v < a.values().size(); ++v) {
    const Value &x = a.values()[v], &y = b.values()[v];
    if (x.is_tensor() != y.is_tensor()) return false;
    if (x.is_strings()) {
      const Shape &s = x.strings().shape(), &t = y.strings().shape();
      if (!std::equal(s.begin() + 1, s.end(), t.begin() + 1, t.end())) return false;
    } else if (!y.tensor().device().is_cpu() || !y.tensor().is_contiguous() ||
               y.tensor().requires_grad() || x.tensor().scalar_type() != y.tensor().scalar_type() ||
               x.tensor().sizes().slice(1) != y.tensor().sizes().slice(1)) {
      return false;
    }
  }
  return true;
}

bool all_rows(std::span<const StreamElement> items) {
  const Element* first = items.front().block.get();
  if (first == nullptr || first->values().empty() || !same_rows(*first, *first)) return false;
  const Element* last = first;
  for (const StreamElement& item : items) {
    if (item.block.get() == last) continue;
    last = item.block.get();
    if (last == nullptr || !same_rows(*first, *last)) return false;
  }
  return true;
}

Value gather_tensor(std::span<const StreamElement> items, size_t v) {
  const Tensor& first = items.front().block->values()[v].tensor();
  Shape shape = first.sizes().vec();
  shape[0] = static_cast<int64_t>(items.size());
  Tensor out = at::empty(shape, first.options());
  const size_t row_bytes = static_cast<size_t>(out.nbytes()) / items.size();
  auto* to = static_cast<char*>(out.data_ptr());
  for (const StreamElement& item : items) {
    const Tensor& block = item.block->values()[v].tensor();
    std::memcpy(
        to, static_cast<const char*>(block.data_ptr()) + static_cast<size_t>(item.row) * row_bytes,
        row_bytes);
    to += row_bytes;
  }
  return out;
}

Value gather_strings(std::span<const StreamElement> items, size_t v) {
  Shape shape = items.front().block->values()[v].strings().shape();
  int64_t width = 1;
  for (size_t axis = 1; axis < shape.size(); ++axis) width *= shape[axis];
  shape[0] = static_cast<int64_t>(items.size());
  std::vector<int64_t> offsets{0};
  offsets.reserve(items.size() * static_cast<size_t>(width) + 1);
  std::string bytes;
  for (const StreamElement& item : items) {
    const Strings& block = item.block->values()[v].strings();
    for (int64_t i = item.row * width; i < (item.row + 1) * width; ++i) {
      bytes += block[i];
      offsets.push_back(static_cast<int64_t>(bytes.size()));
    }
  }
  return Strings(std::move(shape), std::move(offsets), std::move(bytes));
}

}  // namespace

Element collate(std::span<StreamElement> items) {
  const EmptiedAtEnd emptied{items};
  if (!all_rows(items)) return Element::stack(take_elements(items));
  const std::shared_ptr<Element> block = items.front().block;
  const int64_t begin = items.front().row, n = static_cast<int64_t>(items.size());
  // Most batches are read as one block.
  bool consecutive = true;
  for (int64_t i = 1; i < n && consecutive; ++i) {
    const StreamElement& item = items[static_cast<size_t>(i)];
    consecutive = item.block == block && item.row == begin + i;
  }
  if (consecutive && n == block->values().front().rows()) {
    for (StreamElement& item : items) item.block.reset();
    return block.use_count() == 1 ? std::move(*block) : *block;
  }
  if (consecutive) return unversioned(block->slice(begin, begin + n));
  std::vector<Value> values;
  values.reserve(block->values().size());
  for (size_t v = 0; v < block->values().size(); ++v) {
    values.push_back(block->values()[v].is_tensor() ? gather_tensor(items, v)
                                                    : gather_strings(items, v));
  }
  return Element::make(block->shared_structure(), std::move(values));
}

}  // namespace muster::inline v0_1::data::internal
