#include "muster/data/internal/padded_collate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/internal/padding_limit.h"
#include "muster/tensor/leaf_name.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {
namespace {

// The shape all rows of leaf `v` are padded to.
Shape padded_shape(const std::vector<Element>& elements, size_t v, const PaddingOptions& padding) {
  const auto shape_at = [&](size_t i) {
    const Value& value = elements[i].values()[v];
    return value.is_tensor() ? value.tensor().sizes().vec() : value.strings().shape();
  };
  const bool asked = v < padding.padded_shapes.size();
  Shape wanted = asked ? padding.padded_shapes[v] : Shape(shape_at(0).size(), -1);
  Shape largest = wanted;
  for (size_t i = 0; i < elements.size(); ++i) {
    const Shape shape = shape_at(i);
    if (shape.size() != wanted.size()) {
      throw invalid_argument(
          fmt::format("padded_batch: row {} has shape {} and {} is {}", i, describe(shape),
                      asked ? "the padded shape asked for" : "that of row 0",
                      asked ? describe(wanted) : describe(shape_at(0))),
          "padding makes axes longer; it does not add any");
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (wanted[axis] < 0) {
        largest[axis] = std::max(largest[axis], shape[axis]);
      } else if (shape[axis] > wanted[axis]) {
        throw Error(ErrorKind::kCorrupt,
                    fmt::format("padded_batch: row {} has shape {}, larger than the padded shape "
                                "{} asked for",
                                i, describe(shape), describe(wanted)),
                    "ask for a larger padded shape, or for -1, which takes the largest of a batch");
      }
    }
  }
  return largest;
}

void check_fill(double fill, DType dtype) {
  if (!c10::isIntegralType(dtype, /*includeBool=*/true)) return;
  constexpr double kMost = 9007199254740992.0;  // 2^53: larger ones are not told apart
  const bool whole = std::floor(fill) == fill && std::abs(fill) <= kMost;
  // Within the bounds of the dtype it survives the way there and back.
  if (whole && torch::scalar_tensor(fill, at::kDouble).to(dtype).item<double>() == fill) return;
  throw invalid_argument(
      fmt::format("padded_batch: the padding value {} is not {}", fill, dtype_name(dtype)),
      "give a value of the dtype in padding_values");
}

Value pad_tensors(const std::vector<Element>& elements, size_t v, const Shape& shape,
                  const PaddingOptions& padding) {
  const Tensor& first = elements.front().values()[v].tensor();
  Shape batch = shape;
  batch.insert(batch.begin(), static_cast<int64_t>(elements.size()));
  const double fill = v < padding.padding_values.size() ? padding.padding_values[v] : 0;
  check_fill(fill, first.scalar_type());
  Tensor out = torch::full(batch, fill, first.options());
  for (size_t i = 0; i < elements.size(); ++i) {
    const Value& value = elements[i].values()[v];
    if (!value.is_tensor() || value.tensor().scalar_type() != first.scalar_type()) {
      throw invalid_argument(
          fmt::format("padded_batch: row 0 is {} and row {} is {}",
                      elements.front().values()[v].describe(), i, value.describe()),
          "give every row one dtype in map()");
    }
    Tensor place = out[static_cast<int64_t>(i)];
    for (int64_t axis = 0; axis < value.tensor().dim(); ++axis) {
      place = place.slice(axis, 0, value.tensor().size(axis));
    }
    place.copy_(value.tensor());
  }
  return out;
}

// Strings are padded with empty ones.
Value pad_strings(const std::vector<Element>& elements, size_t v, const Shape& shape) {
  const int64_t places = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies());
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (const Element& element : elements) {
    const Strings& row = element.values()[v].strings();
    Shape at(shape.size(), 0);
    for (int64_t place = 0; place < places; ++place) {
      int64_t source = 0;
      bool inside = true;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        inside = inside && at[axis] < row.shape()[axis];
        source = source * row.shape()[axis] + at[axis];
      }
      if (inside) bytes += row[source];
      offsets.push_back(static_cast<int64_t>(bytes.size()));
      for (size_t axis = shape.size(); axis > 0 && ++at[axis - 1] == shape[axis - 1]; --axis)
        at[axis - 1] = 0;
    }
  }
  Shape batch = shape;
  batch.insert(batch.begin(), static_cast<int64_t>(elements.size()));
  return Strings(std::move(batch), std::move(offsets), std::move(bytes));
}

// Rows whose lengths the data decides must not take unlimited memory.
void check_fits(const std::vector<Element>& elements, size_t v, const Shape& shape,
                const PaddingOptions& padding) {
  const bool asked =
      v < padding.padded_shapes.size() &&
      std::ranges::all_of(padding.padded_shapes[v], [](int64_t n) { return n >= 0; });
  if (asked) return;
  const Value& first = elements.front().values()[v];
  const double place = first.is_tensor() ? static_cast<double>(first.tensor().element_size())
                                         : static_cast<double>(sizeof(int64_t));
  double padded = static_cast<double>(elements.size()) * place;
  for (const int64_t size : shape) padded *= static_cast<double>(size);
  uint64_t read = 0;
  for (const Element& element : elements) {
    const Value& value = element.values()[v];
    read += value.is_tensor() ? static_cast<uint64_t>(value.tensor().nbytes())
                              : static_cast<uint64_t>(value.strings().size()) * sizeof(int64_t);
  }
  check_padding(fmt::format("padded_batch: {} rows of up to {}", elements.size(), describe(shape)),
                padded, read);
}

// Leaf `v` of all elements.
Value pad(const std::vector<Element>& elements, size_t v, const PaddingOptions& padding) {
  const Element& first = elements.front();
  for (const Element& element : elements) {
    if (element.values()[v].is_tensor() == first.values()[v].is_tensor()) continue;
    throw invalid_argument(fmt::format("padded_batch: one row is {} and another {}",
                                       first.describe(), element.describe()));
  }
  const Shape shape = padded_shape(elements, v, padding);
  check_fits(elements, v, shape, padding);
  return first.values()[v].is_tensor() ? pad_tensors(elements, v, shape, padding)
                                       : pad_strings(elements, v, shape);
}

}  // namespace

Element collate_padded(std::span<StreamElement> items, const PaddingOptions& padding) {
  const EmptiedAtEnd emptied{items};
  const std::vector<Element> elements = take_elements(items);
  const Element& first = elements.front();
  const size_t leaves = first.values().size();
  for (const auto& [asked, what] : {std::pair{padding.padded_shapes.size(), "padded_shapes"},
                                    std::pair{padding.padding_values.size(), "padding_values"}}) {
    if (asked == 0 || asked == leaves) continue;
    throw invalid_argument(fmt::format("padded_batch: {} has {} entries, and the element {} has "
                                       "{} values",
                                       what, asked, first.describe(), leaves),
                           "give one for each value, in the order describe() shows, or none");
  }
  for (size_t i = 1; i < elements.size(); ++i) {
    if (elements[i].structure() == first.structure()) continue;
    throw invalid_argument(fmt::format("padded_batch: row 0 is {} and row {} is {}",
                                       first.describe(), i, elements[i].describe()));
  }
  std::vector<Value> values;
  for (size_t v = 0; v < leaves; ++v) {
    try {
      values.push_back(pad(elements, v, padding));
    } catch (const Error& error) {
      throw with_leaf_name(error, first.structure(), v);
    }
  }
  return Element::make(first.shared_structure(), std::move(values));
}

}  // namespace muster::inline v0_1::data::internal
