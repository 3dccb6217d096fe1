// IDX, the format of the MNIST files: a dense array of one element type, big-endian, plain or in
// gzip.
//   0 0 type rank | rank x u32 sizes | elements, row-major
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// The type of an element, by its code in the file.
enum class IdxType : uint8_t {
  kUint8 = 0x08,
  kInt8 = 0x09,
  kInt16 = 0x0b,
  kInt32 = 0x0c,
  kFloat32 = 0x0d,
  kFloat64 = 0x0e,
};

// Returns "uint8", "int16" and so on.
std::string_view to_string(IdxType type);
// The size of one element, in bytes.
size_t size_of(IdxType type);

// One dense array: the content of an IDX file.
struct IdxArray {
  IdxType type = IdxType::kUint8;
  std::vector<int64_t> shape{};
  std::string data{};  // row-major, in this machine's byte order

  // The number of elements.
  int64_t size() const;
};

// Reads a file; its first bytes determine whether it is gzip. Returns NotFound when there is no
// such file. Returns Corrupt for a wrong magic (the message shows the bytes), for a gzip stream
// that is cut short, and for more or fewer data than the header says (the message shows both
// counts).
Result<IdxArray> read_idx(FileSystem& files, const std::string& path);
// Does the same from memory; `what` is the name of the data in errors.
Result<IdxArray> parse_idx(Bytes bytes, std::string_view what);

// Returns the bytes of the file. Returns InvalidArgument when the data do not fill the shape, when
// a size does not fit 32 bits, and for more than 255 dimensions.
Result<std::string> encode_idx(const IdxArray& array);

// Options of write_idx().
struct IdxWriteOptions {
  bool gzip = false;
};
// Writes the file atomically: readers see the old content or the new.
Status write_idx(FileSystem& files, const std::string& path, const IdxArray& array,
                 IdxWriteOptions options = {});

}  // namespace muster::inline v0_1::formats
