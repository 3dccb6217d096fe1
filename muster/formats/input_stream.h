// The bytes of a file from front to back, plain or unpacked on the way, through a buffer that the
// caller looks into: nothing is copied for him. Memory stays below 1 MiB however large the file is,
// but for what the largest peek() asks for.
// Thread safety: a stream belongs to one thread at a time.
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
  // At the beginning of `file`, which must not be null. kAuto takes a file that begins with the two
  // magic bytes for gzip, any other for plain. Gzip members that follow each other are one content.
  // Errors are those of reading the first bytes.
  static Result<std::unique_ptr<InputStream>> open(std::unique_ptr<FileReader> file,
                                                   Compression compression = Compression::kAuto);
  // The same of a path. NotFound when there is no such file.
  static Result<std::unique_ptr<InputStream>> open(FileSystem& files, const std::string& path,
                                                   Compression compression = Compression::kAuto);
  ~InputStream();

  // The bytes from offset() on, as many as are in the buffer: at least `at_least`, fewer only at
  // the end of the data. The view is good until the next peek() or seek(). Memory grows with the
  // bytes that are there, not with `at_least`. A plain file that grew since gives more at a later
  // call. Corrupt, naming the compressed offset and the bytes good before it, when the data is
  // damaged or cut within the bytes asked for: asking for fewer still gives those before the
  // damage.
  Result<Bytes> peek(size_t at_least);
  // Goes on behind the next `count` bytes. REQUIRES: the last peek() showed as many.
  void consume(size_t count);
  // Of the next byte, in the unpacked content.
  uint64_t offset() const { return offset_; }
  // Of the whole content, as far as that is known without reading it: of plain files, which may
  // still grow.
  Result<std::optional<uint64_t>> size();
  // Goes to that offset of the unpacked content: at once in a plain file; in a packed one by
  // reading on, for an earlier place from the beginning. InvalidArgument when the data ends before
  // it; a plain file's position is unchanged then, a packed one's is the end.
  Status seek(uint64_t offset);

  // What was found, never kAuto.
  Compression compression() const { return compression_; }
  // How errors call it: the path.
  const std::string& name() const { return file_->name(); }

 private:
  InputStream(std::unique_ptr<FileReader> file, Compression compression);
  // Adds bytes behind those in the buffer; how many, 0 at the end.
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

  // Of a packed file alone: the bytes read from it that are still to be unpacked.
  std::unique_ptr<internal::Inflater> inflater_;
  std::unique_ptr<std::byte[]> packed_;
  Bytes packed_rest_;
  bool file_ended_ = false;
};

}  // namespace muster::inline v0_1::formats
