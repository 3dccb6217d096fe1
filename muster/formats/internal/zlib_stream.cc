#include "muster/formats/internal/zlib_stream.h"

#include <zlib.h>

#include <algorithm>
#include <new>

namespace muster::inline v0_1::formats::internal {
namespace {

constexpr int kWindow = 15;                 // the largest
constexpr size_t kChunk = size_t{1} << 30;  // zlib counts in 32 bits
constexpr std::byte kGzipMagic{0x1f};       // the first byte of every member

int window_bits(Compression compression) {
  return compression == Compression::kGzip ? kWindow + 16 : kWindow;
}

Bytef* pointer(const std::byte* bytes) {
  return reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes));
}

}  // namespace

Inflater::Inflater(Compression compression, std::string name)
    : stream_(std::make_unique<z_stream>()), compression_(compression), name_(std::move(name)) {
  if (inflateInit2(stream_.get(), window_bits(compression)) != Z_OK) throw std::bad_alloc();
}

Inflater::~Inflater() { inflateEnd(stream_.get()); }

Error Inflater::damaged(const std::string& what) const {
  const std::string stream(to_string(compression_));
  return corrupt("'" + name_ + "': the " + stream + " stream " + what + ", at compressed byte " +
                     std::to_string(read_) + "; " + std::to_string(written_) +
                     " uncompressed bytes before it were read",
                 written_ == 0 ? "is the file compressed as " + stream + "? copy it again if so"
                               : "copy or download the file again");
}

Result<Inflater::Progress> Inflater::inflate(Bytes in, bool last, MutableBytes out) {
  if (finished_) {
    if (in.empty()) return Progress();
    if (compression_ != Compression::kGzip || in[0] != kGzipMagic) {
      return damaged("is followed by bytes that belong to no stream");
    }
    inflateReset(stream_.get());
    finished_ = false;
  }
  in = in.first(std::min(in.size(), kChunk));
  out = out.first(std::min(out.size(), kChunk));
  stream_->next_in = pointer(in.data());
  stream_->avail_in = static_cast<uInt>(in.size());
  stream_->next_out = pointer(out.data());
  stream_->avail_out = static_cast<uInt>(out.size());
  const int code = ::inflate(stream_.get(), Z_NO_FLUSH);
  const Progress progress{.read = in.size() - stream_->avail_in,
                          .written = out.size() - stream_->avail_out};
  read_ += progress.read;
  written_ += progress.written;
  if (code == Z_MEM_ERROR) throw std::bad_alloc();
  finished_ = code == Z_STREAM_END;
  // Good bytes are returned first; zlib reports the error again at the next call.
  if (finished_ || progress.written > 0) return progress;
  if (code != Z_OK && code != Z_BUF_ERROR) {
    return damaged("is damaged (" +
                   std::string(stream_->msg != nullptr ? stream_->msg : "a dictionary is missing") +
                   ")");
  }
  if (last && progress.read == in.size()) return damaged("is cut short");
  return progress;
}

Deflater::Deflater(Compression compression, int level) : stream_(std::make_unique<z_stream>()) {
  if (deflateInit2(stream_.get(), level, Z_DEFLATED, window_bits(compression), 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
}

Deflater::~Deflater() { deflateEnd(stream_.get()); }

void Deflater::deflate(Bytes in, bool last, std::string* out) {
  constexpr size_t kStep = 64 * 1024;
  const size_t begin = out->size();
  size_t written = 0;
  size_t read = 0;
  while (true) {
    const size_t input = std::min(in.size() - read, kChunk);
    const bool end = read + input == in.size();
    // The buffer grows by a share of its size, so that a large output is copied few times.
    out->resize(begin + written + std::max(kStep, written / 2));
    const size_t room = std::min(out->size() - begin - written, kChunk);
    stream_->next_in = pointer(in.data() + read);
    stream_->avail_in = static_cast<uInt>(input);
    stream_->next_out = reinterpret_cast<Bytef*>(out->data() + begin + written);
    stream_->avail_out = static_cast<uInt>(room);
    const int code = ::deflate(stream_.get(), last && end ? Z_FINISH : Z_NO_FLUSH);
    read += input - stream_->avail_in;
    written += room - stream_->avail_out;
    if (last ? code == Z_STREAM_END : read == in.size() && stream_->avail_out > 0) break;
  }
  out->resize(begin + written);
}

}  // namespace muster::inline v0_1::formats::internal
