#include "muster/savedmodel/internal/attributes.h"

#include "muster/bundles/saved_model_wire.h"
#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

using formats::internal::Builder;
using formats::internal::encode_shape;

namespace wire = tensorflow::wire;

std::string bytes_value(wire::AttributeField field, std::string_view bytes) {
  Builder<wire::AttributeField> value;
  value.put_bytes(field, bytes);
  return value.take();
}

std::string varint_value(wire::AttributeField field, int64_t number) {
  Builder<wire::AttributeField> value;
  value.put_varint(field, number);
  return value.take();
}

}  // namespace

std::string type_value(BundleDtype dtype) {
  return varint_value(wire::AttributeField::kType, static_cast<int>(dtype));
}

std::string type_values(const std::vector<BundleDtype>& dtypes) {
  Builder<wire::ListField> list;
  for (const BundleDtype dtype : dtypes)
    list.put_varint(wire::ListField::kType, static_cast<int>(dtype));
  return bytes_value(wire::AttributeField::kList, list.bytes());
}

std::string integer_value(int64_t number) {
  return varint_value(wire::AttributeField::kInteger, number);
}

std::string integer_values(const std::vector<int64_t>& numbers) {
  Builder<wire::ListField> list;
  for (const int64_t number : numbers) list.put_varint(wire::ListField::kInteger, number);
  return bytes_value(wire::AttributeField::kList, list.bytes());
}

std::string number_value(float number) {
  Builder<wire::AttributeField> value;
  value.put_fixed(wire::AttributeField::kNumber, number);
  return value.take();
}

std::string flag_value(bool flag) {
  return varint_value(wire::AttributeField::kFlag, flag ? 1 : 0);
}

std::string text_value(std::string_view text) {
  return bytes_value(wire::AttributeField::kText, text);
}

std::string shape_value(const std::vector<int64_t>& shape) {
  return bytes_value(wire::AttributeField::kShape, encode_shape(shape));
}

std::string shape_values(const std::vector<std::vector<int64_t>>& shapes) {
  Builder<wire::ListField> list;
  for (const auto& shape : shapes) list.put_bytes(wire::ListField::kShape, encode_shape(shape));
  return bytes_value(wire::AttributeField::kList, list.bytes());
}

std::string function_value(std::string_view name) {
  Builder<wire::CalledField> function;
  function.put_bytes(wire::CalledField::kName, name);
  return bytes_value(wire::AttributeField::kFunction, function.bytes());
}

std::string tensor_value(BundleDtype dtype, const std::vector<int64_t>& shape,
                         std::string_view bytes) {
  Builder<wire::TensorField> tensor;
  tensor.put_varint(wire::TensorField::kDtype, static_cast<int>(dtype));
  tensor.put_bytes(wire::TensorField::kShape, encode_shape(shape));
  tensor.put_bytes(wire::TensorField::kContent, bytes);
  return bytes_value(wire::AttributeField::kTensor, tensor.bytes());
}

std::string texts_value(const std::vector<int64_t>& shape, const std::vector<std::string>& texts) {
  Builder<wire::TensorField> tensor;
  tensor.put_varint(wire::TensorField::kDtype, static_cast<int>(BundleDtype::kString));
  tensor.put_bytes(wire::TensorField::kShape, encode_shape(shape));
  for (const std::string& text : texts) tensor.put_bytes(wire::TensorField::kText, text);
  return bytes_value(wire::AttributeField::kTensor, tensor.bytes());
}

std::string map_entry(std::string_view key, std::string_view value) {
  Builder<wire::MapField> to;
  to.put_bytes(wire::MapField::kKey, key);
  to.put_bytes(wire::MapField::kValue, value);
  return to.take();
}

}  // namespace muster::inline v0_1::saved_model::internal
