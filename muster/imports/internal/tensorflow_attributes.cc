#include "muster/imports/internal/tensorflow_attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/bundles/saved_model_wire.h"
#include "muster/formats/protobuf.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensorflow/bundle_tensor.h"

namespace muster::inline v0_1::imports {
namespace {

using formats::internal::Message;
using formats::internal::ShapeField;
using formats::internal::WireReader;

using tensorflow::wire::AttributeField;
using tensorflow::wire::CalledField;
using tensorflow::wire::ListField;
using tensorflow::wire::TensorField;

// Repeated integers, packed or one by one.
template <typename Field>
void read_integers(Message<Field>& from, Field field, std::vector<int64_t>& to) {
  int64_t number = 0;
  Bytes packed;
  if (from.read(field, &number)) {
    to.push_back(number);
  } else if (from.read(field, &packed)) {
    WireReader reader(packed);
    for (uint64_t each = 0; !reader.done();) {
      if (!reader.varint(&each)) throw corrupt("a list of integers is cut short");
      to.push_back(static_cast<int64_t>(each));
    }
  }
}

Shape shape_of(Bytes message) {
  Shape shape = formats::internal::decode_shape(Message<ShapeField>(message));
  for (int64_t& size : shape) size = std::max<int64_t>(size, -1);
  return shape;
}

// The number of elements. Throws Corrupt for a shape that no tensor has.
int64_t elements_of(const Shape& shape) {
  constexpr size_t kMostAxes = 64;  // of LibTorch
  int64_t count = 1;
  bool good = shape.size() <= kMostAxes;
  for (const int64_t size : shape)
    good = good && size >= 0 && !__builtin_mul_overflow(count, size, &count);
  if (!good) throw corrupt("a tensor has an impossible shape");
  return count;
}

// A tensor of these numbers; of the shape there may be more, which are as the last one.
Tensor filled(const Tensor& numbers, const Shape& shape, int64_t count) {
  const int64_t given = numbers.numel();
  if (given == count) return numbers.reshape(shape);
  if (given > count) throw corrupt("a tensor has more numbers than its shape");
  if (given == 0) return torch::zeros({}, numbers.options()).expand(shape);
  if (given == 1) return numbers.reshape({}).expand(shape);
  constexpr int64_t kMostRepeated = int64_t{1} << 20;
  if (count > kMostRepeated + given)
    throw invalid_argument(fmt::format(
        "not supported: SavedModel: a constant of {} numbers for {} elements", given, count));
  return at::cat({numbers, numbers.slice(0, given - 1).expand({count - given})}).reshape(shape);
}

struct TensorParts {
  BundleDtype dtype{};
  Shape shape{};
  Bytes content{};
  std::vector<float> floats{};
  std::vector<double> doubles{};
  std::vector<int64_t> integers{};
  std::vector<std::string> texts{};

  explicit TensorParts(Message<TensorField> from) {
    int type = 0;
    Bytes message;
    std::string text;
    while (from.next()) {
      if (from.read(TensorField::kDtype, &type)) dtype = static_cast<BundleDtype>(type);
      if (from.read(TensorField::kShape, &message)) shape = shape_of(message);
      from.read(TensorField::kContent, &content);
      from.read_all(TensorField::kFloat, &floats);
      from.read_all(TensorField::kDouble, &doubles);
      for (const auto field :
           {TensorField::kInt, TensorField::kInt64, TensorField::kBool, TensorField::kHalf})
        read_integers(from, field, integers);
      if (from.read(TensorField::kText, &text)) texts.push_back(text);
    }
  }
};

// As many texts as the shape has; those at the end that are equal may be written once.
std::vector<std::string> texts_of(TensorParts parts) {
  constexpr size_t kMostRepeated = 4096;
  const auto count = static_cast<size_t>(elements_of(parts.shape));
  if (parts.texts.empty() || count > kMostRepeated || count <= parts.texts.size())
    return std::move(parts.texts);
  parts.texts.resize(count, std::string(parts.texts.back()));
  return std::move(parts.texts);
}

Tensor tensor_of(const TensorParts& parts) {
  const auto dtype = torch_dtype(parts.dtype);
  if (!dtype) return {};
  const int64_t count = elements_of(parts.shape);
  if (!parts.content.empty()) {
    const auto size = static_cast<uint64_t>(at::elementSize(*dtype));
    if (parts.content.size() / size != static_cast<uint64_t>(count) ||
        parts.content.size() % size != 0) {
      throw corrupt(fmt::format("a tensor has {} bytes; its shape and dtype need {}",
                                parts.content.size(), static_cast<uint64_t>(count) * size));
    }
    Tensor tensor = torch::empty(parts.shape, *dtype);
    std::memcpy(tensor.data_ptr(), parts.content.data(), parts.content.size());
    return tensor;
  }
  if (*dtype == at::kHalf || *dtype == at::kBFloat16) {
    // The bits of each number.
    const Tensor bits = torch::tensor(parts.integers, at::kLong).to(at::kShort);
    return filled(bits.view(*dtype), parts.shape, count);
  }
  const Tensor numbers = *dtype == at::kFloat    ? torch::tensor(parts.floats, at::kFloat)
                         : *dtype == at::kDouble ? torch::tensor(parts.doubles, at::kDouble)
                                                 : torch::tensor(parts.integers, at::kLong);
  return filled(numbers.to(*dtype), parts.shape, count);
}

void read_list(Message<ListField> from, ImportedAttribute& to) {
  std::string text;
  std::vector<float> numbers;
  Bytes shape;
  Message<CalledField> function;
  while (from.next()) {
    if (from.read(ListField::kShape, &shape)) to.shapes.push_back(shape_of(shape));
    read_integers(from, ListField::kInteger, to.integers);
    read_integers(from, ListField::kType, to.integers);
    from.read_all(ListField::kNumber, &numbers);
    if (from.read(ListField::kText, &text)) to.texts.push_back(text);
    if (from.read(ListField::kFunction, &function) && function.find(CalledField::kName, &text))
      to.texts.push_back(text);
  }
  to.numbers.assign(numbers.begin(), numbers.end());
}

}  // namespace

std::optional<DType> torch_dtype(BundleDtype dtype) {
  constexpr int kReference = 100;  // added to a dtype for references to variables of version 1
  const int number = static_cast<int>(dtype);
  const auto* row = tensorflow::row_of_dtype(
      static_cast<BundleDtype>(number > kReference ? number - kReference : number));
  return row != nullptr && row->as_it_is ? std::optional(row->ours) : std::nullopt;
}

ImportedAttribute read_tensorflow_attribute(Bytes attribute) {
  ImportedAttribute result;
  Message<AttributeField> from(attribute);
  Message<ListField> list;
  Message<TensorField> tensor;
  Message<CalledField> function;
  Bytes shape;
  float number = 0;
  while (from.next()) {
    for (const auto field :
         {AttributeField::kInteger, AttributeField::kFlag, AttributeField::kType})
      from.read(field, &result.integer);
    from.read(AttributeField::kText, &result.text);
    if (from.read(AttributeField::kNumber, &number)) result.number = number;
    if (from.read(AttributeField::kList, &list)) read_list(list, result);
    if (from.read(AttributeField::kShape, &shape)) result.integers = shape_of(shape);
    if (from.read(AttributeField::kTensor, &tensor)) {
      TensorParts parts(tensor);
      if (parts.dtype == BundleDtype::kString) {
        result.texts = texts_of(std::move(parts));
      } else {
        result.tensor = tensor_of(parts);
      }
    }
    if (from.read(AttributeField::kFunction, &function))
      function.find(CalledField::kName, &result.text);
  }
  return result;
}

}  // namespace muster::inline v0_1::imports
