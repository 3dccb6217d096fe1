// safetensors: named dense arrays in one file that any reader of the format opens.
//   u64 header length | header, JSON padded with blanks | the arrays' bytes, little-endian, without
//   gaps
// Thread safety: a reader may be shared once open; writing is one call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"
#include "muster/formats/safetensors_parts.h"

namespace muster::inline v0_1::formats {

// The longest header that is accepted, in bytes; other readers have the same limit.
inline constexpr uint64_t kSafetensorsHeaderLimit = 100'000'000;

// The size of one element of dtype "F32", "I64", "BOOL", "BF16" and so on, in bits; nothing when
// the format has no such dtype.
std::optional<int> safetensors_bits(std::string_view dtype);
// The size of an array, in bytes; nothing when the dtype is unknown, a size is negative, the count
// overflows, or the bits do not fill whole bytes.
std::optional<uint64_t> safetensors_bytes(std::string_view dtype,
                                          const std::vector<int64_t>& shape);

// A tensor to write. `data` must hold exactly the bytes of `shape` and stay alive during the call.
struct TensorView {
  std::string name{};
  std::string dtype{};  // "F32", "I64", ...
  std::vector<int64_t> shape{};
  Bytes data{};
};

// Where a tensor lies in an open file.
struct TensorEntry {
  std::string name{};
  std::string dtype{};
  std::vector<int64_t> shape{};
  uint64_t offset = 0;  // from the start of the file
  uint64_t bytes = 0;
  std::vector<TensorPiece> pieces = {};  // where its bytes lie, when that is in parts of the file
};

// Texts by key in the header of the file.
using SafetensorsMetadata = std::map<std::string, std::string>;

// Writes header and data to `sink` piece by piece, without a copy of the data. Wider dtypes come
// first (then in the given order), so that every array is aligned to its element and, the header
// being a multiple of 8, in a mapped file too. Returns InvalidArgument for an unknown dtype, a name
// given twice or "__metadata__", data that do not fill the shape, and names or metadata that are
// not UTF-8; nothing is written then.
Status write_safetensors(ByteSink& sink, std::span<const TensorView> tensors,
                         const SafetensorsMetadata& metadata = {});

// An open file: its header is in memory, tensors are read on request.
class MUSTER_PART_EXPORT SafetensorsReader {
 public:
  // Reads and checks the whole header. Returns Corrupt when it is too long or no JSON, for an
  // unknown dtype, for sizes that disagree with the shape, for gaps and overlaps, when the file is
  // shorter or longer than the header says, and when a part of it is missing or of another size.
  static Result<SafetensorsReader> open(FileSystem& files, const std::string& path);
  // Returns InvalidArgument for a file that has parts: they are found by its path.
  static Result<SafetensorsReader> open(std::shared_ptr<FileReader> file);

  // The tensors, in the order of their data; after them the tensors that lie in parts, by name.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  // The other files that hold tensors of it; empty if it holds all itself.
  const SafetensorsParts& parts() const { return parts_; }
  // Returns the tensor of that name, or nullptr when there is none.
  const TensorEntry* find(std::string_view name) const;

  // Fills `out` with the bytes of the tensor. Returns InvalidArgument unless `out` has entry.bytes
  // bytes; Corrupt, naming the part, if bytes of a part have changed.
  Status read(const TensorEntry& entry, MutableBytes out) const;
  // Fills `out` with the bytes from `begin` on. For tensors in parts, whole pieces are read and
  // verified. Returns InvalidArgument if the tensor ends before.
  Status read_range(const TensorEntry& entry, uint64_t begin, MutableBytes out) const;
  // Returns the bytes of the tensor of that name. When there is none, NotFound lists the names
  // there are.
  Result<std::string> read(std::string_view name) const;

 private:
  SafetensorsReader() = default;

  // Opens the file without its parts.
  static Result<SafetensorsReader> open_alone(std::shared_ptr<FileReader> file);
  // Takes metadata and tensors from a header; the offsets still count from the start of the data.
  // Errors begin with `who`.
  Status read_header(const std::string& header, const std::string& who);
  // Puts the tensors in the order of their data, which lie from byte `begin` to the end of the
  // file. Returns Corrupt when they do not fill these bytes exactly.
  Status place_tensors(uint64_t begin, uint64_t file_size, const std::string& who);
  // Takes the table of parts from the metadata, and the tensors that lie there.
  Status read_parts(const std::string& who);
  // Opens the parts. Returns NotFound if one is missing.
  Status open_parts(FileSystem& files, const std::string& directory);
  Status read_piece(const TensorEntry& entry, const TensorPiece& piece, MutableBytes out) const;

  std::shared_ptr<FileReader> file_;
  SafetensorsParts parts_;
  std::vector<std::shared_ptr<FileReader>> part_files_;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  SafetensorsMetadata metadata_;
};

}  // namespace muster::inline v0_1::formats
