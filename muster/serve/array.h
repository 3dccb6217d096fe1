// Named arrays: the inputs and outputs of a served model, without any tensor library. Thread
// safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace muster::inline v0_1::serve {

// The types of the elements of an array.
enum class ElementType { kBool, kUint8, kInt8, kInt16, kInt32, kInt64, kFloat32, kFloat64, kBytes };

// Returns "float32", "int64", "bool", "bytes" and so on.
std::string_view to_string(ElementType type);
// Returns TensorFlow's name, as clients of its serving know it: "DT_FLOAT", "DT_INT64",
// "DT_STRING".
std::string_view tensorflow_name(ElementType type);
// The bytes of one element; 0 for kBytes, whose elements differ in length.
size_t element_size(ElementType type);

// A dense array in row-major order.
struct Array {
  ElementType type = ElementType::kFloat32;
  std::vector<int64_t> shape{};
  std::vector<std::byte> data{};     // the elements, in the machine's byte order; empty for kBytes
  std::vector<std::string> texts{};  // the elements of kBytes

  // The number of elements that the shape has.
  int64_t size() const;
  // The length of axis 0; 1 for a scalar.
  int64_t rows() const { return shape.empty() ? 1 : shape.front(); }
  bool operator==(const Array&) const = default;
};

// Arrays by name.
using Arrays = std::map<std::string, Array>;

// Makes an array of numbers. REQUIRES: `values` fills the shape; T is the C++ type of `type`.
template <typename T>
Array make_array(ElementType type, std::vector<int64_t> shape, const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return {type, std::move(shape), {bytes, bytes + values.size() * sizeof(T)}, {}};
}

// Returns the arrays one after the other along axis 0. REQUIRES: at least one; types and all other
// axes agree.
Array join_rows(const std::vector<const Array*>& parts);
// Returns the rows [first, first + count). REQUIRES: the array has them.
Array slice_rows(const Array& array, int64_t first, int64_t count);

}  // namespace muster::inline v0_1::serve
