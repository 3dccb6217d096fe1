#include "muster/formats/input_stream.h"

#include <algorithm>
#include <cstring>

#include "muster/base/missing_file.h"
#include "muster/formats/gzip.h"
#include "muster/formats/internal/zlib_stream.h"

namespace muster::inline v0_1::formats {
namespace {

// The buffer is so large that a system call costs little compared with the copy it makes, and so
// small that the bytes are still in the cache when they are read.
constexpr size_t kBuffer = 256 * 1024;
constexpr size_t kPacked = 64 * 1024;

}  // namespace

Result<std::unique_ptr<InputStream>> InputStream::open(std::unique_ptr<FileReader> file,
                                                       Compression compression) {
  if (compression == Compression::kAuto) {
    std::byte magic[2];
    Result<size_t> got = file->read_at(0, magic);
    if (!got.ok()) return got.error();
    compression = is_gzip(Bytes(magic, got.value())) ? Compression::kGzip : Compression::kNone;
  }
  return std::unique_ptr<InputStream>(new InputStream(std::move(file), compression));
}

Result<std::unique_ptr<InputStream>> InputStream::open(FileSystem& files, const std::string& path,
                                                       Compression compression) {
  Result<std::unique_ptr<FileReader>> file = open_named_file(files, path);
  if (!file.ok()) return file.error();
  return open(std::move(file.value()), compression);
}

InputStream::InputStream(std::unique_ptr<FileReader> file, Compression compression)
    : file_(std::move(file)),
      compression_(compression),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kBuffer)),
      capacity_(kBuffer) {
  if (compression_ != Compression::kNone) {
    packed_ = std::make_unique_for_overwrite<std::byte[]>(kPacked);
  }
  rewind(0);
}

InputStream::~InputStream() = default;

void InputStream::rewind(uint64_t offset) {
  begin_ = end_ = 0;
  offset_ = file_offset_ = offset;
  if (packed_ == nullptr) return;
  inflater_ = std::make_unique<internal::Inflater>(compression_, name());
  packed_rest_ = {};
  file_ended_ = false;
}

void InputStream::make_room() {
  const size_t held = end_ - begin_;
  if (held == capacity_) {
    auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity_ * 2);
    std::memcpy(larger.get(), buffer_.get(), held);
    buffer_ = std::move(larger);
    capacity_ *= 2;
  } else if (begin_ > 0 && held > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, held);
  }
  begin_ = 0;
  end_ = held;
}

Result<size_t> InputStream::inflate_into(MutableBytes out) {
  while (true) {
    if (packed_rest_.empty() && !file_ended_) {
      Result<size_t> got = file_->read_at(file_offset_, {packed_.get(), kPacked});
      if (!got.ok()) return got.error();
      packed_rest_ = {packed_.get(), got.value()};
      file_offset_ += got.value();
      file_ended_ = got.value() == 0;
    }
    Result<internal::Inflater::Progress> progress =
        inflater_->inflate(packed_rest_, file_ended_, out);
    if (!progress.ok()) return progress.error();
    packed_rest_ = packed_rest_.subspan(progress.value().read);
    if (progress.value().written > 0) return progress.value().written;
    if (file_ended_ && packed_rest_.empty() && inflater_->finished()) return size_t{0};
  }
}

Result<size_t> InputStream::fill() {
  make_room();
  const MutableBytes out(buffer_.get() + end_, capacity_ - end_);
  Result<size_t> got = packed_ ? inflate_into(out) : file_->read_at(file_offset_, out);
  if (!got.ok()) return got.error();
  if (!packed_) file_offset_ += got.value();
  end_ += got.value();
  return got.value();
}

Result<Bytes> InputStream::peek(size_t at_least) {
  while (end_ - begin_ < at_least) {
    Result<size_t> got = fill();
    if (!got.ok()) return got.error();
    if (got.value() == 0) break;
  }
  return Bytes(buffer_.get() + begin_, end_ - begin_);
}

void InputStream::consume(size_t count) {
  begin_ += count;
  offset_ += count;
}

Result<std::optional<uint64_t>> InputStream::size() {
  if (packed_) return std::optional<uint64_t>();
  Result<uint64_t> size = file_->size();
  if (!size.ok()) return size.error();
  return std::optional(size.value());
}

Status InputStream::seek(uint64_t offset) {
  if (offset >= offset_ && offset - offset_ <= end_ - begin_) {
    consume(static_cast<size_t>(offset - offset_));
    return {};
  }
  const auto no_such_place = [&](uint64_t size) {
    return invalid_argument("'" + name() + "' has " + std::to_string(size) +
                                (packed_ ? " uncompressed" : "") + " bytes; there is no byte " +
                                std::to_string(offset) + " to go on at",
                            "the file is not the one the position was taken from");
  };
  if (!packed_) {
    Result<uint64_t> size = file_->size();
    if (!size.ok()) return size.error();
    if (offset > size.value()) return no_such_place(size.value());
    rewind(offset);
    return {};
  }
  if (offset < offset_) rewind(0);
  while (offset_ < offset) {
    Result<Bytes> bytes = peek(1);
    if (!bytes.ok()) return bytes.error();
    if (bytes.value().empty()) return no_such_place(offset_);
    consume(static_cast<size_t>(std::min<uint64_t>(bytes.value().size(), offset - offset_)));
  }
  return {};
}

}  // namespace muster::inline v0_1::formats
