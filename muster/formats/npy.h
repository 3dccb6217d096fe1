// NumPy's .npy: one dense array in a file.
//   \x93NUMPY major minor | u16 or u32 header length | header, a Python dict as text | data
// Versions 1, 2 and 3. Thread safety: pure functions; a reader may be shared.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// The kind of an element; NpyHeader::item_bytes is its width.
enum class NpyKind {
  kBool,     // 1 byte
  kInt,      // 1, 2, 4, 8 bytes
  kUint,     // 1, 2, 4, 8 bytes
  kFloat,    // 2, 4, 8 bytes
  kComplex,  // 8, 16 bytes: two floats
  kBytes,    // dtype S: any width, padded with zero bytes
  kUnicode,  // dtype U: 4 bytes a character, padded with zeros
};

// The type and shape of an array, as the header of the file says.
struct NpyHeader {
  NpyKind kind = NpyKind::kFloat;
  uint64_t item_bytes = 4;     // of one element
  bool big_endian = false;     // how the file stores numbers
  bool fortran_order = false;  // the first axis runs fastest in the file
  std::vector<int64_t> shape{};
  uint64_t data_offset = 0;  // where the elements begin

  bool is_text() const { return kind == NpyKind::kBytes || kind == NpyKind::kUnicode; }
  // The number of elements.
  int64_t size() const;
  uint64_t data_bytes() const { return static_cast<uint64_t>(size()) * item_bytes; }
  // The name that numpy uses: "float32", "uint8", "S5", "U12".
  std::string dtype() const;
};

// The texts of an array of strings: element i, in row-major order, is bytes[offsets[i], offsets[i +
// 1]).
struct NpyTexts {
  std::vector<int64_t> offsets{0};
  std::string bytes{};
};

// Reads and checks the header; size() and data_bytes() of the result fit 63 bits. Returns Corrupt
// if the magic or the header is not as numpy writes it, if the shape overflows, and if the file is
// shorter or longer than the header says (the message shows both counts). Returns InvalidArgument,
// and says what to save instead, for arrays of objects, of records, of dates and of long doubles.
Result<NpyHeader> read_npy_header(FileReader& file);

// Fills `out`, of header.data_bytes(), with the elements in row-major order and in this machine's
// byte order. REQUIRES: a header that read_npy_header() gave for this file, not is_text().
Status read_npy_data(FileReader& file, const NpyHeader& header, MutableBytes out);
// Returns the elements without their padding; elements of dtype U become UTF-8. Returns Corrupt,
// with the index of the element, for a number that is not a character. REQUIRES: a header that
// read_npy_header() returned for this file, and is_text().
Result<NpyTexts> read_npy_texts(FileReader& file, const NpyHeader& header);

// Writes version 1 of the format (2 when the header is long), little-endian, with the data aligned
// to 64 bytes. `data` is row-major and fills the shape; data_offset, big_endian and fortran_order
// of `header` are ignored. Returns InvalidArgument when the data do not fit; nothing is written
// then.
Status write_npy(ByteSink& sink, const NpyHeader& header, Bytes data);

}  // namespace muster::inline v0_1::formats
