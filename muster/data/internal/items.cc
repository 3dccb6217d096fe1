#include "muster/data/internal/items.h"


#include "muster/base/error.h"
#include "muster/tensor/leaf_name.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {
namespace {

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const c10::Error& error) {
    return internal_error(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return internal_error(error.what());
  } catch (...) {
    return internal_error("something was thrown that is no std::exception");
  }
}

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

bool all_rows(std::span<const Item> items) {
  const Element* first = items.front().block.get();
  if (first == nullptr || first->values().empty() || !same_rows(*first, *first)) return false;
  const Element* last = first;
  for (const Item& item : items) {
    if (item.block.get() == last) continue;
    last = item.block.get();
    if (last == nullptr || !same_rows(*first, *last)) return false;
  }
  return true;
}

Value gather_tensor(std::span<const Item> items, size_t v) {
  const Tensor& first = items.front().block->values()[v].tensor();
  Shape shape = first.sizes().vec();
  shape[0] = static_cast<int64_t>(items.size());
  Tensor out = at::empty(shape, first.options());
  const size_t row_bytes = static_cast<size_t>(out.nbytes()) / items.size();
  auto* to = static_cast<char*>(out.data_ptr());
  for (const Item& item : items) {
    const Tensor& block = item.block->values()[v].tensor();
    std::memcpy(
        to, static_cast<const char*>(block.data_ptr()) + static_cast<size_t>(item.row) * row_bytes,
        row_bytes);
    to += row_bytes;
  }
  return out;
}

Value gather_strings(std::span<const Item> items, size_t v) {
  Shape shape = items.front().block->values()[v].strings().shape();
  int64_t width = 1;
  for (size_t axis = 1; axis < shape.size(); ++axis) width *= shape[axis];
  shape[0] = static_cast<int64_t>(items.size());
  std::vector<int64_t> offsets{0};
  offsets.reserve(items.size() * static_cast<size_t>(width) + 1);
  std::string bytes;
  for (const Item& item : items) {
    const Strings& block = item.block->values()[v].strings();
    for (int64_t i = item.row * width; i < (item.row + 1) * width; ++i) {
      bytes += block[i];
      offsets.push_back(static_cast<int64_t>(bytes.size()));
    }
  }
  return Strings(std::move(shape), std::move(offsets), std::move(bytes));
}

std::vector<Element> settled(std::span<Item> items) {
  std::vector<Element> elements;
  elements.reserve(items.size());
  for (Item& item : items) {
    item.settle();
    elements.push_back(std::move(item.element));
  }
  return elements;
}

// Takes what the items hold with it when it goes.
struct Emptied {
  std::span<Item> items;
  ~Emptied() {
    for (Item& item : items) item = {};
  }
};

std::string shape_of(const Value& value) {
  return value.is_tensor() ? describe(value.tensor().sizes().vec())
                           : describe(value.strings().shape());
}

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
      fmt::format("padded_batch: the padding value {} is no {}", fill, dtype_name(dtype)),
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
  if (shape.size() > 1) {
    throw invalid_argument(fmt::format("padded_batch of strings of shape {} is not supported",
                                       shape_of(elements.front().values()[v])),
                           "strings of one axis can be padded; flatten them in map()");
  }
  const int64_t width = shape.empty() ? 1 : shape[0];
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (const Element& element : elements) {
    const Strings& row = element.values()[v].strings();
    for (int64_t i = 0; i < width; ++i) {
      if (i < row.size()) bytes += row[i];
      offsets.push_back(static_cast<int64_t>(bytes.size()));
    }
  }
  Shape batch = shape;
  batch.insert(batch.begin(), static_cast<int64_t>(elements.size()));
  return Strings(std::move(batch), std::move(offsets), std::move(bytes));
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
  return first.values()[v].is_tensor() ? pad_tensors(elements, v, shape, padding)
                                       : pad_strings(elements, v, shape);
}

}  // namespace

void rethrow_first(std::span<Item> items) {
  const auto failed = std::find_if(items.begin(), items.end(),
                                   [](const Item& item) { return item.error != nullptr; });
  if (failed == items.end()) return;
  const Emptied emptied{items};
  std::rethrow_exception(std::exception_ptr(failed->error));
}

std::exception_ptr current_failure(const std::string& stage) {
  const Error error = current_error();
  return std::make_exception_ptr(stage.empty() ? error : error.with_context(stage));
}

void Item::settle() {
  if (block == nullptr) return;
  element = unversioned(block->transform([this](const Value& value) { return value.row(row); }));
  block.reset();
}

uint64_t hold(Item& item) {
  const uint64_t bytes = size_in_bytes(item);
  constexpr uint64_t kLarge = 1024;  // bytes; the tensor itself takes some 200
  if (item.block == nullptr || bytes < kLarge * item.block->values().size()) return bytes;
  item.element = item.block->transform([&](const Value& value) -> Value {
    return value.is_tensor() ? Value(value.tensor()[item.row].clone()) : value.row(item.row);
  });
  item.block.reset();
  return bytes;
}

Element unversioned(const Element& element) {
  const torch::NoGradGuard no_grad;
  return element.transform([](const Value& value) -> Value {
    if (!value.is_tensor() || !value.tensor().defined() ||
        value.tensor().layout() != at::kStrided) {
      return value;
    }
    // Unlike detach() and variable_data() it may be given another shape in place.
    const Tensor& rows = value.tensor();
    return at::empty({0}, rows.options())
        .set_(rows.storage(), rows.storage_offset(), rows.sizes(), rows.strides());
  });
}

Ref tag_within(const Ref& outer, const Ref& tag) {
  const uint64_t mixed =
      derive_key(static_cast<uint64_t>(outer.index),
                 {id_of("data.tag"), static_cast<uint64_t>(outer.run),
                  static_cast<uint64_t>(tag.index), static_cast<uint64_t>(tag.run)})
          .key;
  return {std::numeric_limits<int64_t>::min() | static_cast<int64_t>(mixed >> 1), tag.run};
}

uint64_t size_in_bytes(const Item& item) {
  if (item.block == nullptr) return size_in_bytes(item.element);
  int64_t rows = 1;  // of the first value; what does not fit is said where it is needed
  for (const Value& value : item.block->values()) {
    if (!value.is_tensor() || !value.tensor().defined() || value.tensor().dim() == 0) continue;
    rows = std::max<int64_t>(1, value.tensor().size(0));
    break;
  }
  return size_in_bytes(*item.block) / static_cast<uint64_t>(rows);
}

uint64_t size_in_bytes(const Element& element) {
  uint64_t bytes = 0;
  for (const Value& value : element.values()) {
    if (value.is_tensor()) {
      if (!value.tensor().defined()) continue;
      bytes += static_cast<uint64_t>(value.tensor().nbytes());
    } else {
      const Strings& strings = value.strings();
      if (strings.size() == 0) continue;
      const std::string_view last = strings[strings.size() - 1];  // they lie one behind another
      bytes += static_cast<uint64_t>(strings.size()) * sizeof(int64_t) +
               static_cast<uint64_t>(last.data() + last.size() - strings[0].data());
    }
  }
  return bytes;
}

Element join_items(std::span<Item> items) {
  const Emptied emptied{items};
  if (!all_rows(items)) return Element::stack(settled(items));
  const std::shared_ptr<Element> block = items.front().block;
  const int64_t begin = items.front().row, n = static_cast<int64_t>(items.size());
  // A batch is most often what was read at once.
  bool consecutive = true;
  for (int64_t i = 1; i < n && consecutive; ++i) {
    const Item& item = items[static_cast<size_t>(i)];
    consecutive = item.block == block && item.row == begin + i;
  }
  if (consecutive && n == block->values().front().rows()) {
    for (Item& item : items) item.block.reset();
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

Element join_padded(std::span<Item> items, const PaddingOptions& padding) {
  const Emptied emptied{items};
  const std::vector<Element> elements = settled(items);
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
