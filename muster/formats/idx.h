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

// "uint8", "int16", ...
std::string_view to_string(IdxType type);
// Bytes of one element.
size_t size_of(IdxType type);

// One dense array: what an IDX file holds.
struct IdxArray {
  IdxType type = IdxType::kUint8;
  std::vector<int64_t> shape;
  std::string data;  // row-major, in this machine's byte order

  // Elements in all.
  int64_t size() const;
};

// Reads a file, gzip or not by its first bytes. NotFound; Corrupt for a wrong magic (the message
// shows the bytes), a gzip stream cut short, and more or fewer data than the header says (the
// message shows both counts).
Result<IdxArray> read_idx(FileSystem& files, const std::string& path);
// The same from memory; `what` is how errors call it.
Result<IdxArray> parse_idx(Bytes bytes, std::string_view what);

// InvalidArgument when the data do not fill the shape, a size does not fit 32 bits, or there are
// over 255 dimensions.
Result<std::string> encode_idx(const IdxArray& array);

// Options of write_idx().
struct IdxWriteOptions {
  bool gzip = false;
};
// Writes atomically.
Status write_idx(FileSystem& files, const std::string& path, const IdxArray& array,
                 IdxWriteOptions options = {});

}  // namespace muster::inline v0_1::formats
