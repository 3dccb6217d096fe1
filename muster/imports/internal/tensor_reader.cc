#include "muster/imports/internal/tensor_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using ::onnx::TensorProto;

std::string label_of(const TensorProto& tensor, const ModelPlace& place) {
  return fmt::format("the tensor \"{}\" of {}", printable(tensor.name()), place.path);
}

// The number of elements.
int64_t count_of(const TensorProto& tensor, const ModelPlace& place) {
  constexpr int kMostAxes = 64;  // of LibTorch
  int64_t count = tensor.dims_size() <= kMostAxes ? 1 : -1;
  if (count < 0) throw corrupt(label_of(tensor, place) + " has an impossible shape");
  for (const int64_t size : tensor.dims()) {
    // A shape with a 0 has no elements, whatever the other sizes are.
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      throw corrupt(label_of(tensor, place) + " has an impossible shape");
  }
  return count;
}

[[noreturn]] void refuse_size(const TensorProto& tensor, const ModelPlace& place, uint64_t has,
                              uint64_t wanted, const char* unit) {
  throw corrupt(fmt::format("{} has {} {}; its shape and dtype need {}", label_of(tensor, place),
                            has, unit, wanted),
                "copy the file again, or export the model again");
}

// What external_data of a tensor says.
struct ExternalData {
  std::string location{};
  uint64_t offset = 0;
  std::optional<uint64_t> length{};

  ExternalData(const TensorProto& tensor, const ModelPlace& place) {
    for (const auto& entry : tensor.external_data()) {
      if (entry.key() == "location") location = entry.value();
      if (entry.key() == "offset") offset = number_of(entry.value(), tensor, place);
      if (entry.key() == "length") length = number_of(entry.value(), tensor, place);
    }
    const auto parts = split(location, '/');
    const bool inside =
        !location.empty() && location.front() != '/' && location.find('\\') == std::string::npos &&
        location.find(':') == std::string::npos && location.find('\0') == std::string::npos &&
        std::ranges::find(parts, "..") == parts.end();
    if (inside) return;
    throw invalid_argument(
        fmt::format("{} has its data in \"{}\", which may be outside of the model's folder",
                    label_of(tensor, place), printable(location)),
        "external data are files next to the model, or in a folder next to it");
  }

 private:
  static uint64_t number_of(const std::string& text, const TensorProto& tensor,
                            const ModelPlace& place) {
    const auto number = parse_int(text);
    if (number && *number >= 0) return static_cast<uint64_t>(*number);
    throw corrupt(fmt::format("{} has the offset or length \"{}\"", label_of(tensor, place),
                              printable(text)));
  }
};

void read_external(const TensorProto& tensor, const ModelPlace& place, Tensor& into) {
  const ExternalData where(tensor, place);
  const uint64_t wanted = into.nbytes();
  if (where.length && *where.length != wanted)
    refuse_size(tensor, place, *where.length, wanted, "bytes of external data");
  const std::string path = join_path(directory_of(place.path), where.location);
  const auto file = place.files->open_reader(path).value();
  const uint64_t size = file->size().value();
  if (where.offset > size || wanted > size - where.offset) {
    throw corrupt(
        fmt::format("{} needs the bytes {} to {} of {}, which has {}", label_of(tensor, place),
                    where.offset, where.offset + wanted, path, size),
        "copy this file again");
  }
  const MutableBytes out(static_cast<std::byte*>(into.data_ptr()), wanted);
  for (uint64_t done = 0; done < wanted;) {
    const size_t got = file->read_at(where.offset + done, out.subspan(done)).value();
    if (got == 0) throw corrupt(path + " became shorter while it was read");
    done += got;
  }
}

template <typename Stored, typename List>
void copy_numbers(const List& list, Tensor& into) {
  auto* to = static_cast<Stored*>(into.data_ptr());
  for (const auto each : list) *to++ = static_cast<Stored>(each);
}

// The elements of a message that are not raw bytes.
void copy_fields(const TensorProto& tensor, const ModelPlace& place, Tensor& into) {
  const auto wanted = static_cast<uint64_t>(into.numel());
  const auto check = [&](int has) {
    if (static_cast<uint64_t>(has) != wanted)
      refuse_size(tensor, place, static_cast<uint64_t>(has), wanted, "numbers");
  };
  switch (into.scalar_type()) {
    case at::kFloat:
      check(tensor.float_data_size());
      return copy_numbers<float>(tensor.float_data(), into);
    case at::kDouble:
      check(tensor.double_data_size());
      return copy_numbers<double>(tensor.double_data(), into);
    case at::kLong:
      check(tensor.int64_data_size());
      return copy_numbers<int64_t>(tensor.int64_data(), into);
    default:
      break;
  }
  check(tensor.int32_data_size());
  switch (into.scalar_type()) {
    case at::kInt:
      return copy_numbers<int32_t>(tensor.int32_data(), into);
    case at::kShort:
    case at::kHalf:  // its bits
    case at::kBFloat16:
      return copy_numbers<int16_t>(tensor.int32_data(), into);
    case at::kBool:
      return copy_numbers<bool>(tensor.int32_data(), into);
    default:
      return copy_numbers<uint8_t>(tensor.int32_data(), into);
  }
}

}  // namespace

DType dtype_of_element(int element_type, const std::string& what) {
  switch (element_type) {
    case TensorProto::FLOAT:
      return at::kFloat;
    case TensorProto::DOUBLE:
      return at::kDouble;
    case TensorProto::FLOAT16:
      return at::kHalf;
    case TensorProto::BFLOAT16:
      return at::kBFloat16;
    case TensorProto::INT64:
      return at::kLong;
    case TensorProto::INT32:
      return at::kInt;
    case TensorProto::INT16:
      return at::kShort;
    case TensorProto::INT8:
      return at::kChar;
    case TensorProto::UINT8:
      return at::kByte;
    case TensorProto::BOOL:
      return at::kBool;
    default:
      break;
  }
  const std::string name =
      TensorProto::DataType_IsValid(element_type)
          ? TensorProto::DataType_Name(static_cast<TensorProto::DataType>(element_type))
          : std::to_string(element_type);
  throw invalid_argument(fmt::format("not supported: ONNX: the dtype {} of {}", name, what),
                         "LibTorch has no such tensors: convert the model to another dtype");
}

Tensor read_tensor(const TensorProto& tensor, const ModelPlace& place) {
  const DType dtype = dtype_of_element(tensor.data_type(), label_of(tensor, place));
  const int64_t count = count_of(tensor, place);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(count), c10::elementSize(dtype), &bytes))
    throw corrupt(label_of(tensor, place) + " has an impossible shape");
  if (tensor.has_segment())
    throw invalid_argument("not supported: ONNX: segments, in " + label_of(tensor, place));
  const bool external = tensor.data_location() == TensorProto::EXTERNAL;
  // Before memory for the elements exists: a shape costs a few bytes, and may promise any number.
  if (external) {
    const ExternalData where(tensor, place);
    const std::string path = join_path(directory_of(place.path), where.location);
    if (place.files->file_size(path).value() < bytes)
      throw corrupt(
          fmt::format("{} needs {} bytes, {} has fewer", label_of(tensor, place), bytes, path),
          "copy this file again");
  } else if (tensor.has_raw_data() && tensor.raw_data().size() != bytes) {
    refuse_size(tensor, place, tensor.raw_data().size(), bytes, "bytes");
  } else if (!tensor.has_raw_data()) {
    const int numbers = std::max({tensor.float_data_size(), tensor.double_data_size(),
                                  tensor.int64_data_size(), tensor.int32_data_size()});
    if (numbers != count)
      refuse_size(tensor, place, static_cast<uint64_t>(numbers), static_cast<uint64_t>(count),
                  "numbers");
  }
  const Shape shape(tensor.dims().begin(), tensor.dims().end());
  Tensor result = torch::empty(shape, at::TensorOptions(dtype));
  if (external) {
    read_external(tensor, place, result);
  } else if (tensor.has_raw_data()) {
    std::memcpy(result.data_ptr(), tensor.raw_data().data(), tensor.raw_data().size());
  } else {
    copy_fields(tensor, place, result);
  }
  // Of a byte that is neither 0 nor 1 C++ makes any number.
  if (dtype == at::kBool) result = result.view(at::kByte).ne(0);
  return result;
}

}  // namespace muster::inline v0_1::onnx::internal
