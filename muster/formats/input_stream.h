// Reads the bytes of a file from front to back and unpacks them on the way. The caller looks into
// the stream's own buffer, so nothing is copied. Memory stays below 1 MiB however large the file
// is, unless a peek() asks for more. Thread safety: a stream belongs to one thread at a time.
//
//   while (true) {
//     Result<Bytes> bytes = stream->peek(12);
//     if (bytes.value().size() < 12) break;  // the end
//     stream->consume(12);
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/bytes.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"
#include "muster/formats/compression.h"

namespace muster::inline v0_1::formats {

namespace internal {
class Inflater;
}

class InputStream {
 public:
  // Opens a stream at the beginning of `file`, which must not be null. With kAuto a file that
  // begins with the two magic bytes is gzip, and any other is plain. Gzip members that follow each
  // other are one content. The errors are those of reading the first bytes.
  static Result<std::unique_ptr<InputStream>> open(std::unique_ptr<FileReader> file,
                                                   Compression compression = Compression::kAuto);
  // Does the same with a path. Returns NotFound when there is no such file.
  static Result<std::unique_ptr<InputStream>> open(FileSystem& files, const std::string& path,
                                                   Compression compression = Compression::kAuto);
  ~InputStream();

  // Returns the bytes from offset() on that are in the buffer: at least `at_least` bytes, and fewer
  // only at the end of the data. The view is good until the next peek() or seek(). Memory grows
  // with the existing bytes, not with `at_least`. When a plain file has grown, a later call returns
  // more. Returns Corrupt, naming the compressed offset and how many bytes before it are good, if
  // the data is damaged or cut within the requested bytes; a request for fewer bytes still returns
  // those before the damage.
  Result<Bytes> peek(size_t at_least);
  // Skips the next `count` bytes. REQUIRES: the last peek() showed at least `count` bytes.
  void consume(size_t count);
  // The offset of the next byte in the unpacked content.
  uint64_t offset() const { return offset_; }
  // The size of the whole content, in bytes. It is known without reading for plain files alone, and
  // these may still grow.
  Result<std::optional<uint64_t>> size();
  // Moves to that offset of the unpacked content. In a plain file this takes no time; a packed file
  // is read up to the place, from its beginning when the place is an earlier one. Returns
  // InvalidArgument when the data ends before the place; the position of a plain file is unchanged
  // then, and that of a packed file is the end.
  Status seek(uint64_t offset);

  // The compression that was found; never kAuto.
  Compression compression() const { return compression_; }
  // The name of the file in errors: its path.
  const std::string& name() const { return file_->name(); }

 private:
  InputStream(std::unique_ptr<FileReader> file, Compression compression);
  // Adds bytes after those in the buffer; returns how many, 0 at the end.
  Result<size_t> fill();
  Result<size_t> inflate_into(MutableBytes out);
  void make_room();
  void rewind(uint64_t offset);

  std::unique_ptr<FileReader> file_;
  Compression compression_;
  uint64_t file_offset_ = 0;  // of the next byte to read from the file
  uint64_t offset_ = 0;       // of buffer_[begin_] in the content

  std::unique_ptr<std::byte[]> buffer_;
  size_t capacity_;
  size_t begin_ = 0;
  size_t end_ = 0;

  // For a packed file: the bytes that were read and are still to be unpacked.
  std::unique_ptr<internal::Inflater> inflater_;
  std::unique_ptr<std::byte[]> packed_;
  Bytes packed_rest_;
  bool file_ended_ = false;
};

}  // namespace muster::inline v0_1::formats
