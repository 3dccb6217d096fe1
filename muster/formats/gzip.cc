#include "muster/formats/gzip.h"

#include "muster/formats/input_stream.h"
#include "muster/formats/internal/zlib_stream.h"

namespace muster::inline v0_1::formats {

bool is_gzip(Bytes bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Result<std::string> gunzip(Bytes bytes, std::string_view what) {
  Result<std::unique_ptr<InputStream>> stream =
      InputStream::open(memory_reader(bytes, std::string(what)), Compression::kGzip);
  if (!stream.ok()) return stream.error();
  std::string content;
  while (true) {
    Result<Bytes> piece = stream.value()->peek(1);
    if (!piece.ok()) return piece.error();
    if (piece.value().empty()) return content;
    content.append(text_of(piece.value()));
    stream.value()->consume(piece.value().size());
  }
}

std::string gzip(Bytes bytes, int level) {
  std::string content;
  internal::Deflater(Compression::kGzip, level).deflate(bytes, /*last=*/true, &content);
  return content;
}

}  // namespace muster::inline v0_1::formats
