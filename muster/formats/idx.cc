#include "muster/formats/idx.h"

#include <algorithm>
#include <optional>

#include "muster/base/strings.h"
#include "muster/formats/gzip.h"
#include "muster/formats/internal/hints.h"
#include "muster/formats/internal/shape_text.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::shape_text;

bool is_known(uint8_t type) {
  switch (static_cast<IdxType>(type)) {
    case IdxType::kUint8:
    case IdxType::kInt8:
    case IdxType::kInt16:
    case IdxType::kInt32:
    case IdxType::kFloat32:
    case IdxType::kFloat64:
      return true;
  }
  return false;
}

// Changes big-endian numbers to this machine's order, or back, in place.
void swap_elements(std::string& data, size_t begin, size_t width) {
  if (width == 1) return;
  for (size_t at = begin; at + width <= data.size(); at += width) {
    std::reverse(data.begin() + static_cast<ptrdiff_t>(at),
                 data.begin() + static_cast<ptrdiff_t>(at + width));
  }
}

// Returns the size of the elements, in bytes: 0 as soon as one size is 0, nothing when it is 2^64
// or more.
std::optional<uint64_t> bytes_of_shape(IdxType type, const std::vector<int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  uint64_t bytes = size_of(type);
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

Result<IdxArray> parse_plain(std::string_view content, const std::string& what) {
  const Bytes bytes = bytes_of(content);
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(bytes[at]); };
  if (bytes.size() < 4) {
    return corrupt(what + " has " + std::to_string(bytes.size()) +
                       " bytes: too few for the 4 bytes an IDX file starts "
                       "with",
                   internal::kCopyAgain);
  }
  if (byte(0) != 0 || byte(1) != 0 || !is_known(byte(2))) {
    return corrupt(
        what + " is not an IDX file: it starts with " + hex_bytes(bytes.first(4)) +
            ", expected 00 00, a type (08, 09, 0b, 0c, 0d or 0e) and the number of dimensions",
        "check that this is the right file, and not for example a web page saved in its place");
  }
  IdxArray array{.type = static_cast<IdxType>(byte(2)), .shape = {}, .data = {}};
  const size_t rank = byte(3);
  const size_t header = 4 + 4 * rank;
  if (bytes.size() < header) {
    return corrupt(what + " is cut short inside its header: " + std::to_string(header) +
                       " bytes expected, " + std::to_string(bytes.size()) + " found",
                   internal::kCopyAgain);
  }
  for (size_t i = 0; i < rank; ++i) {
    uint32_t size = 0;
    for (size_t k = 0; k < 4; ++k) size = (size << 8) | byte(4 + 4 * i + k);
    array.shape.push_back(size);
  }
  const std::optional<uint64_t> expected = bytes_of_shape(array.type, array.shape);
  const uint64_t actual = bytes.size() - header;
  if (expected != actual) {
    const bool is_short = !expected || actual < *expected;
    return corrupt(what + (is_short ? " is cut short: " : " is too long: ") +
                       (expected ? std::to_string(*expected) : "more than 2^64") +
                       " bytes of data expected for " + std::string(to_string(array.type)) +
                       shape_text(array.shape) + ", " + std::to_string(actual) + " found",
                   internal::kCopyAgain);
  }
  array.data.assign(content.substr(header));
  swap_elements(array.data, 0, size_of(array.type));
  return array;
}

}  // namespace

std::string_view to_string(IdxType type) {
  switch (type) {
    case IdxType::kUint8:
      return "uint8";
    case IdxType::kInt8:
      return "int8";
    case IdxType::kInt16:
      return "int16";
    case IdxType::kInt32:
      return "int32";
    case IdxType::kFloat32:
      return "float32";
    case IdxType::kFloat64:
      return "float64";
  }
  return "unknown";
}

size_t size_of(IdxType type) {
  switch (type) {
    case IdxType::kUint8:
    case IdxType::kInt8:
      return 1;
    case IdxType::kInt16:
      return 2;
    case IdxType::kInt32:
    case IdxType::kFloat32:
      return 4;
    case IdxType::kFloat64:
      return 8;
  }
  return 1;
}

int64_t IdxArray::size() const {
  // When one size is 0, the others may be anything.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

Result<IdxArray> read_idx(FileSystem& files, const std::string& path) {
  Result<std::string> content = files.read_file(path);
  if (!content.ok()) return content.error();
  return parse_idx(bytes_of(content.value()), path);
}

Result<IdxArray> parse_idx(Bytes bytes, std::string_view what) {
  const std::string name = "'" + std::string(what) + "'";
  if (!is_gzip(bytes)) return parse_plain(text_of(bytes), name);
  Result<std::string> content = gunzip(bytes, what);
  if (!content.ok()) return content.error();
  return parse_plain(content.value(), name + " (unpacked)");
}

Result<std::string> encode_idx(const IdxArray& array) {
  if (array.shape.size() > 255) {
    return invalid_argument("an IDX array has at most 255 dimensions, not " +
                            std::to_string(array.shape.size()));
  }
  std::string bytes{'\0', '\0', static_cast<char>(array.type),
                    static_cast<char>(array.shape.size())};
  for (const int64_t size : array.shape) {
    if (size < 0 || size > UINT32_MAX) {
      return invalid_argument("the shape " + shape_text(array.shape) + " does not fit an IDX file");
    }
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((size >> shift) & 0xff);
  }
  const std::optional<uint64_t> expected = bytes_of_shape(array.type, array.shape);
  if (expected != array.data.size()) {
    return invalid_argument("an IDX array of " + std::string(to_string(array.type)) +
                            shape_text(array.shape) + " needs " +
                            (expected ? std::to_string(*expected) : "more than 2^64") +
                            " bytes, got " + std::to_string(array.data.size()));
  }
  const size_t header = bytes.size();
  bytes += array.data;
  swap_elements(bytes, header, size_of(array.type));
  return bytes;
}

Status write_idx(FileSystem& files, const std::string& path, const IdxArray& array,
                 IdxWriteOptions options) {
  Result<std::string> encoded = encode_idx(array);
  if (!encoded.ok()) return encoded.error().with_context("cannot write '" + path + "'");
  return files.write_atomically(path,
                                options.gzip ? gzip(bytes_of(encoded.value())) : encoded.value());
}

}  // namespace muster::inline v0_1::formats
