#include "muster/formats/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <new>

namespace muster::inline v0_1::formats {
namespace {

constexpr int kGzipWindow = 15 + 16;        // the largest window, gzip framing
constexpr size_t kChunk = size_t{1} << 30;  // zlib counts in 32 bits

Bytef* writable(const std::byte* bytes) {
  return reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes));
}

}  // namespace

bool is_gzip(Bytes bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Result<std::string> gunzip(Bytes bytes, std::string_view what) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  struct Guard {
    z_stream* stream;
    ~Guard() { inflateEnd(stream); }
  } guard{&stream};

  std::string content(std::clamp<size_t>(bytes.size() * 4, 4096, kChunk), '\0');
  size_t read = 0;
  size_t written = 0;
  while (true) {
    if (written == content.size()) content.resize(content.size() * 2);
    const size_t input = std::min(bytes.size() - read, kChunk);
    const size_t room = std::min(content.size() - written, kChunk);
    stream.next_in = writable(bytes.data() + read);
    stream.avail_in = static_cast<uInt>(input);
    stream.next_out = reinterpret_cast<Bytef*>(content.data() + written);
    stream.avail_out = static_cast<uInt>(room);
    const int code = inflate(&stream, Z_NO_FLUSH);
    read += input - stream.avail_in;
    written += room - stream.avail_out;
    const std::string so_far = " after " + std::to_string(read) + " compressed bytes (" +
                               std::to_string(written) + " uncompressed)";
    if (code == Z_STREAM_END) {
      if (read == bytes.size()) break;
      if (!is_gzip(bytes.subspan(read))) {
        return corrupt("'" + std::string(what) + "': bytes that are no gzip follow the stream" +
                       so_far);
      }
      inflateReset(&stream);
    } else if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return corrupt("'" + std::string(what) + "' is a damaged gzip stream" + so_far + ": " +
                         (stream.msg != nullptr ? stream.msg : "not gzip"),
                     "copy or download the file again");
    } else if (read == bytes.size() && stream.avail_out > 0) {
      return corrupt("'" + std::string(what) + "': the gzip stream is cut short" + so_far,
                     "copy or download the file again");
    }
  }
  content.resize(written);
  return content;
}

std::string gzip(Bytes bytes, int level) {
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  struct Guard {
    z_stream* stream;
    ~Guard() { deflateEnd(stream); }
  } guard{&stream};

  std::string content(std::max<size_t>(bytes.size() / 2, 4096), '\0');
  size_t read = 0;
  size_t written = 0;
  int code = Z_OK;
  while (code != Z_STREAM_END) {
    if (written == content.size()) content.resize(content.size() * 2);
    const size_t input = std::min(bytes.size() - read, kChunk);
    const size_t room = std::min(content.size() - written, kChunk);
    stream.next_in = writable(bytes.data() + read);
    stream.avail_in = static_cast<uInt>(input);
    stream.next_out = reinterpret_cast<Bytef*>(content.data() + written);
    stream.avail_out = static_cast<uInt>(room);
    code = deflate(&stream, read + input == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    read += input - stream.avail_in;
    written += room - stream.avail_out;
  }
  content.resize(written);
  return content;
}

}  // namespace muster::inline v0_1::formats
