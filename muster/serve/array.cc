#include "muster/serve/array.h"

#include <array>

namespace muster::inline v0_1::serve {
namespace {

struct TypeRow {
  std::string_view name;
  std::string_view tensorflow;
  size_t bytes;
};

// In the order of ElementType.
constexpr std::array<TypeRow, 9> kTypes = {{{"bool", "DT_BOOL", 1},
                                            {"uint8", "DT_UINT8", 1},
                                            {"int8", "DT_INT8", 1},
                                            {"int16", "DT_INT16", 2},
                                            {"int32", "DT_INT32", 4},
                                            {"int64", "DT_INT64", 8},
                                            {"float32", "DT_FLOAT", 4},
                                            {"float64", "DT_DOUBLE", 8},
                                            {"bytes", "DT_STRING", 0}}};

const TypeRow& row_of(ElementType type) { return kTypes[static_cast<size_t>(type)]; }

// The elements of one row.
int64_t row_elements(const Array& array) {
  int64_t elements = 1;
  for (size_t axis = 1; axis < array.shape.size(); ++axis) elements *= array.shape[axis];
  return elements;
}

}  // namespace

std::string_view to_string(ElementType type) { return row_of(type).name; }
std::string_view tensorflow_name(ElementType type) { return row_of(type).tensorflow; }
size_t element_size(ElementType type) { return row_of(type).bytes; }

int64_t Array::size() const {
  int64_t elements = 1;
  for (const int64_t length : shape) elements *= length;
  return elements;
}

Array join_rows(const std::vector<const Array*>& parts) {
  Array joined{parts.front()->type, parts.front()->shape, {}, {}};
  size_t bytes = 0;
  joined.shape.front() = 0;
  for (const Array* part : parts) {
    joined.shape.front() += part->rows();
    bytes += part->data.size();
  }
  joined.data.reserve(bytes);
  for (const Array* part : parts) {
    joined.data.insert(joined.data.end(), part->data.begin(), part->data.end());
    joined.texts.insert(joined.texts.end(), part->texts.begin(), part->texts.end());
  }
  return joined;
}

Array slice_rows(const Array& array, int64_t first, int64_t count) {
  Array rows{array.type, array.shape, {}, {}};
  rows.shape.front() = count;
  const int64_t elements = row_elements(array);
  if (array.type == ElementType::kBytes) {
    const auto begin = array.texts.begin() + first * elements;
    rows.texts.assign(begin, begin + count * elements);
  } else {
    const auto stride = elements * static_cast<int64_t>(element_size(array.type));
    const auto begin = array.data.begin() + first * stride;
    rows.data.assign(begin, begin + count * stride);
  }
  return rows;
}

}  // namespace muster::inline v0_1::serve
