#include "muster/data/npy.h"

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/missing_file.h"
#include "muster/files/file_systems.h"
#include "muster/formats/npy.h"
#include "muster/formats/zip.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using formats::NpyHeader;
using formats::NpyKind;

// The dtype with the bytes of the file's.
DType bytes_dtype(const NpyHeader& header) {
  const auto by_width = [&](DType one, DType two, DType four, DType eight) {
    return header.item_bytes == 1   ? one
           : header.item_bytes == 2 ? two
           : header.item_bytes == 4 ? four
                                    : eight;
  };
  switch (header.kind) {
    case NpyKind::kBool:
      return at::kBool;
    case NpyKind::kInt:
      return by_width(at::kChar, at::kShort, at::kInt, at::kLong);
    case NpyKind::kUint:
      return by_width(at::kByte, at::kShort, at::kInt, at::kLong);
    case NpyKind::kFloat:
      return by_width(at::kHalf, at::kHalf, at::kFloat, at::kDouble);
    default:
      return header.item_bytes == 8 ? at::kComplexFloat : at::kComplexDouble;
  }
}

// The bytes of a uint16, uint32 or uint64, as a wider integer of the same value.
Tensor from_unsigned(const Tensor& bytes, const std::string& name) {
  if (bytes.scalar_type() == at::kShort) return bytes.to(at::kInt).bitwise_and(0xffff);
  if (bytes.scalar_type() == at::kInt) return bytes.to(at::kLong).bitwise_and(int64_t{0xffffffff});
  const auto* begin = bytes.data_ptr<int64_t>();
  const auto* end = begin + bytes.numel();
  const auto* negative = std::find_if(begin, end, [](int64_t number) { return number < 0; });
  if (negative != end) {
    throw invalid_argument(
        fmt::format("'{}': element {} is {}, which does not fit an int64; tensors have no uint64",
                    name, negative - begin, static_cast<uint64_t>(*negative)),
        "save it as numbers of another dtype: numpy.save(path, array.astype(\"float64\"))");
  }
  return bytes;
}

Value read_value(FileReader& file) {
  const NpyHeader header = formats::read_npy_header(file).value();
  if (header.is_text()) {
    formats::NpyTexts texts = formats::read_npy_texts(file, header).value();
    return Strings(header.shape, std::move(texts.offsets), std::move(texts.bytes));
  }
  Tensor tensor = torch::empty(header.shape, bytes_dtype(header));
  formats::read_npy_data(
      file, header,
      {static_cast<std::byte*>(tensor.data_ptr()), static_cast<size_t>(tensor.nbytes())})
      .value();
  const bool wider = header.kind == NpyKind::kUint && header.item_bytes > 1;
  return wider ? from_unsigned(tensor, file.name()) : tensor;
}

NpyHeader header_of(const Tensor& tensor) {
  NpyHeader header{.item_bytes = static_cast<uint64_t>(tensor.element_size()),
                   .shape = tensor.sizes().vec()};
  switch (tensor.scalar_type()) {
    case at::kBool:
      header.kind = NpyKind::kBool;
      return header;
    case at::kByte:
      header.kind = NpyKind::kUint;
      return header;
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong:
      header.kind = NpyKind::kInt;
      return header;
    case at::kHalf:
    case at::kFloat:
    case at::kDouble:
      header.kind = NpyKind::kFloat;
      return header;
    case at::kComplexFloat:
    case at::kComplexDouble:
      header.kind = NpyKind::kComplex;
      return header;
    default:
      throw invalid_argument(
          fmt::format("NumPy has no {}: the tensor {} cannot be written to a .npy file",
                      dtype_name(tensor.scalar_type()), describe(tensor)),
          "convert it first: tensor.to(kFloat32)");
  }
}

}  // namespace

Value load_npy_value(const std::string& path) {
  return read_value(*open_named_file(file_systems(), path).value());
}

Tensor load_npy(const std::string& path) {
  const Value value = load_npy_value(path);
  if (value.is_tensor()) return value.tensor();
  throw invalid_argument(fmt::format("'{}' is {}, not an array of numbers", path, value.describe()),
                         "load it with load_npy_value()");
}

Element load_npz(const std::string& path) {
  const formats::ZipReader archive =
      formats::ZipReader::open(open_named_file(file_systems(), path).value()).value();
  std::vector<std::pair<std::string, Element>> arrays;
  for (const formats::ZipEntry& entry : archive.entries()) {
    constexpr std::string_view kSuffix = ".npy";
    if (!entry.name.ends_with(kSuffix)) {
      throw invalid_argument(
          fmt::format("not supported: '{}' has the entry '{}', which is no .npy array", path,
                      entry.name),
          "write the archive with numpy.savez, or take the entry out");
    }
    const std::string content = archive.read(entry).value();
    const auto file = memory_reader(bytes_of(content), path + "/" + entry.name);
    arrays.emplace_back(entry.name.substr(0, entry.name.size() - kSuffix.size()),
                        read_value(*file));
  }
  if (arrays.empty()) {
    throw invalid_argument(fmt::format("'{}' has no arrays", path),
                           "write it with numpy.savez(path, name=array)");
  }
  return Element::dict(std::move(arrays));
}

void save_npy(const std::string& path, const Tensor& tensor) {
  if (!tensor.defined()) throw invalid_argument("save_npy got an undefined tensor for " + path);
  const Tensor whole = tensor.detach().cpu().contiguous().resolve_conj().resolve_neg();
  const auto file = file_systems().open_staged(path).value();
  formats::write_npy(
      *file, header_of(whole),
      {static_cast<const std::byte*>(whole.data_ptr()), static_cast<size_t>(whole.nbytes())})
      .value();
  file->commit().value();
}

}  // namespace muster::inline v0_1::data
