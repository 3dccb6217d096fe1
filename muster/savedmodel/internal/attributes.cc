#include "muster/savedmodel/internal/attributes.h"

#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

using formats::internal::Builder;
using formats::internal::encode_shape;

namespace attribute_wire {
// AttrValue and its list.
enum class ValueField : uint32_t {
  kList = 1,
  kText = 2,
  kInteger = 3,
  kNumber = 4,
  kFlag = 5,
  kType = 6,
  kShape = 7,
  kTensor = 8,
  kFunction = 10,
};
enum class ListField : uint32_t { kInteger = 3, kType = 6, kShape = 7 };
enum class FunctionField : uint32_t { kName = 1 };
enum class TensorField : uint32_t { kDtype = 1, kShape = 2, kContent = 4, kText = 8 };
enum class EntryField : uint32_t { kKey = 1, kValue = 2 };
}  // namespace attribute_wire

std::string bytes_value(attribute_wire::ValueField field, std::string_view bytes) {
  Builder<attribute_wire::ValueField> value;
  value.put_bytes(field, bytes);
  return value.take();
}

std::string varint_value(attribute_wire::ValueField field, int64_t number) {
  Builder<attribute_wire::ValueField> value;
  value.put_varint(field, number);
  return value.take();
}

}  // namespace

std::string type_value(BundleDtype dtype) {
  return varint_value(attribute_wire::ValueField::kType, static_cast<int>(dtype));
}

std::string type_values(const std::vector<BundleDtype>& dtypes) {
  Builder<attribute_wire::ListField> list;
  for (const BundleDtype dtype : dtypes)
    list.put_varint(attribute_wire::ListField::kType, static_cast<int>(dtype));
  return bytes_value(attribute_wire::ValueField::kList, list.bytes());
}

std::string integer_value(int64_t number) {
  return varint_value(attribute_wire::ValueField::kInteger, number);
}

std::string integer_values(const std::vector<int64_t>& numbers) {
  Builder<attribute_wire::ListField> list;
  for (const int64_t number : numbers) list.put_varint(attribute_wire::ListField::kInteger, number);
  return bytes_value(attribute_wire::ValueField::kList, list.bytes());
}

std::string number_value(float number) {
  Builder<attribute_wire::ValueField> value;
  value.put_fixed(attribute_wire::ValueField::kNumber, number);
  return value.take();
}

std::string flag_value(bool flag) {
  return varint_value(attribute_wire::ValueField::kFlag, flag ? 1 : 0);
}

std::string text_value(std::string_view text) {
  return bytes_value(attribute_wire::ValueField::kText, text);
}

std::string shape_value(const std::vector<int64_t>& shape) {
  return bytes_value(attribute_wire::ValueField::kShape, encode_shape(shape));
}

std::string shape_values(const std::vector<std::vector<int64_t>>& shapes) {
  Builder<attribute_wire::ListField> list;
  for (const auto& shape : shapes)
    list.put_bytes(attribute_wire::ListField::kShape, encode_shape(shape));
  return bytes_value(attribute_wire::ValueField::kList, list.bytes());
}

std::string function_value(std::string_view name) {
  Builder<attribute_wire::FunctionField> function;
  function.put_bytes(attribute_wire::FunctionField::kName, name);
  return bytes_value(attribute_wire::ValueField::kFunction, function.bytes());
}

std::string tensor_value(BundleDtype dtype, const std::vector<int64_t>& shape,
                         std::string_view bytes) {
  Builder<attribute_wire::TensorField> tensor;
  tensor.put_varint(attribute_wire::TensorField::kDtype, static_cast<int>(dtype));
  tensor.put_bytes(attribute_wire::TensorField::kShape, encode_shape(shape));
  tensor.put_bytes(attribute_wire::TensorField::kContent, bytes);
  return bytes_value(attribute_wire::ValueField::kTensor, tensor.bytes());
}

std::string texts_value(const std::vector<int64_t>& shape, const std::vector<std::string>& texts) {
  Builder<attribute_wire::TensorField> tensor;
  tensor.put_varint(attribute_wire::TensorField::kDtype, static_cast<int>(BundleDtype::kString));
  tensor.put_bytes(attribute_wire::TensorField::kShape, encode_shape(shape));
  for (const std::string& text : texts) tensor.put_bytes(attribute_wire::TensorField::kText, text);
  return bytes_value(attribute_wire::ValueField::kTensor, tensor.bytes());
}

std::string map_entry(std::string_view key, std::string_view value) {
  Builder<attribute_wire::EntryField> to;
  to.put_bytes(attribute_wire::EntryField::kKey, key);
  to.put_bytes(attribute_wire::EntryField::kValue, value);
  return to.take();
}

}  // namespace muster::inline v0_1::saved_model::internal
