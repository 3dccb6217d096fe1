#include "muster/formats/tfrecord.h"

#include <algorithm>
#include <utility>

#include "muster/base/crc32c.h"
#include "muster/base/missing_file.h"
#include "muster/formats/gzip.h"
#include "muster/formats/input_stream.h"
#include "muster/formats/internal/zlib_stream.h"

namespace muster::inline v0_1::formats {
namespace {

constexpr uint64_t kHeader = 12;
constexpr uint64_t kTrailer = 4;
static_assert(kHeader + kTrailer == kTfrecordOverhead);
// From this length on it pays to ask whether the file is as long as a record says.
constexpr uint64_t kLarge = 1024 * 1024;
constexpr size_t kWriteBuffer = 256 * 1024;

// Whether `bytes` begin with the length of a record and its checksum.
bool is_header(Bytes bytes) {
  return bytes.size() >= kHeader &&
         load_little_endian<uint32_t>(bytes.data() + 8) == masked_crc32c(bytes.first(8));
}

// Whether `bytes` start as a zlib stream does: deflate, a window it can have, a sum that 31
// divides.
bool is_zlib(Bytes bytes) {
  if (bytes.size() < 2) return false;
  const auto first = std::to_integer<unsigned>(bytes[0]);
  const unsigned sum = first * 256 + std::to_integer<unsigned>(bytes[1]);
  return (first & 0x0f) == 8 && (first >> 4) <= 7 && sum % 31 == 0;
}

Result<Compression> detect(FileReader& file) {
  std::byte first[kHeader];
  Result<size_t> got = file.read_at(0, first);
  if (!got.ok()) return got.error();
  const Bytes bytes(first, got.value());
  if (is_header(bytes)) return Compression::kNone;
  if (is_gzip(bytes)) return Compression::kGzip;
  return is_zlib(bytes) ? Compression::kZlib : Compression::kNone;
}

}  // namespace

void append_tfrecord(std::string& out, Bytes payload) {
  const size_t begin = out.size();
  append_little_endian<uint64_t>(out, payload.size());
  append_little_endian<uint32_t>(out, masked_crc32c(bytes_of(out).subspan(begin, 8)));
  out.append(text_of(payload));
  append_little_endian<uint32_t>(out, masked_crc32c(payload));
}

Status write_tfrecord(ByteSink& sink, Bytes payload) {
  std::string record;
  record.reserve(payload.size() + kTfrecordOverhead);
  append_tfrecord(record, payload);
  return sink.append(bytes_of(record));
}

TfrecordReader::TfrecordReader(std::unique_ptr<InputStream> stream) : stream_(std::move(stream)) {}
TfrecordReader::TfrecordReader(TfrecordReader&&) noexcept = default;
TfrecordReader& TfrecordReader::operator=(TfrecordReader&&) noexcept = default;
TfrecordReader::~TfrecordReader() = default;

uint64_t TfrecordReader::offset() const { return stream_->offset(); }
Compression TfrecordReader::compression() const { return stream_->compression(); }
const std::string& TfrecordReader::name() const { return stream_->name(); }

Result<TfrecordReader> TfrecordReader::open(std::unique_ptr<FileReader> file,
                                            Compression compression) {
  if (compression == Compression::kAuto) {
    Result<Compression> detected = detect(*file);
    if (!detected.ok()) return detected.error();
    compression = detected.value();
  }
  Result<std::unique_ptr<InputStream>> stream = InputStream::open(std::move(file), compression);
  if (!stream.ok()) return stream.error();
  return TfrecordReader(std::move(stream.value()));
}

Result<TfrecordReader> TfrecordReader::open(FileSystem& files, const std::string& path,
                                            Compression compression) {
  Result<std::unique_ptr<FileReader>> file = open_named_file(files, path);
  if (!file.ok()) return file.error();
  return open(std::move(file.value()), compression);
}

Error TfrecordReader::damaged(const std::string& what, const std::string& hint) const {
  return corrupt("'" + name() + "': " + what + " the record at byte " + std::to_string(offset()) +
                     (compression() == Compression::kNone ? "" : " of its uncompressed content"),
                 hint);
}

Error TfrecordReader::cut_short() const {
  return damaged("the file ends inside",
                 offset() == 0
                     ? "it was cut short, or is not a TFRecord file: copy it again, or name another"
                     : "it was cut short: copy it again; the records before this one are good");
}

Error TfrecordReader::ends_with(Error error) {
  ended_ = true;
  // A reader that continues at offset() must find the end too.
  const Result<std::optional<uint64_t>> size = stream_->size();
  if (size.ok() && size.value()) (void)stream_->seek(*size.value());
  return error;
}

Result<std::optional<uint64_t>> TfrecordReader::next_length(RecordState* state) {
  *state = RecordState::kEnd;
  if (ended_) return std::optional<uint64_t>();
  Result<Bytes> header = stream_->peek(kHeader);
  if (!header.ok()) return ends_with(header.error());
  if (header.value().size() < kHeader) {
    if (!header.value().empty()) *state = RecordState::kPartial;
    return std::optional<uint64_t>();
  }
  if (!is_header(header.value())) {
    const char* const hint =
        offset() > 0 ? "the file is damaged from there on; the records before it are good"
        : is_gzip(header.value())
            ? "it looks compressed as gzip: read it so, or let the compression be found out"
            : "is it a TFRecord file? If so, its beginning is damaged: copy it again";
    return ends_with(damaged("wrong checksum of the length of", hint));
  }
  const auto length = load_little_endian<uint64_t>(header.value().data());
  *state = RecordState::kPartial;
  if (length > SIZE_MAX - kTfrecordOverhead - offset()) return std::optional<uint64_t>();
  if (length > kLarge) {
    Result<std::optional<uint64_t>> size = stream_->size();
    if (!size.ok()) return ends_with(size.error());
    const std::optional<uint64_t> end = size.value();
    if (end && (*end < offset() || *end - offset() < length + kTfrecordOverhead)) {
      return std::optional<uint64_t>();
    }
  }
  *state = RecordState::kRecord;
  return std::optional(length);
}

Result<RecordState> TfrecordReader::poll(Bytes* payload) {
  RecordState state;
  Result<std::optional<uint64_t>> next = next_length(&state);
  if (!next.ok()) return next.error();
  if (!next.value()) return state;
  const size_t length = *next.value();
  Result<Bytes> bytes = stream_->peek(length + kTfrecordOverhead);
  if (!bytes.ok()) return ends_with(bytes.error());
  if (bytes.value().size() < length + kTfrecordOverhead) return RecordState::kPartial;
  const Bytes body = bytes.value().subspan(kHeader, length);
  if (load_little_endian<uint32_t>(body.data() + length) != masked_crc32c(body)) {
    Error error = damaged("wrong checksum of the content of",
                          "this record is damaged; later records can be read");
    stream_->consume(length + kTfrecordOverhead);
    return error;
  }
  stream_->consume(length + kTfrecordOverhead);
  *payload = body;
  return RecordState::kRecord;
}

Result<bool> TfrecordReader::read(Bytes* payload) {
  Result<RecordState> state = poll(payload);
  if (!state.ok()) return state.error();
  if (state.value() == RecordState::kPartial) return ends_with(cut_short());
  return state.value() == RecordState::kRecord;
}

Result<int64_t> TfrecordReader::skip(int64_t count) {
  for (int64_t skipped = 0; skipped < count; ++skipped) {
    RecordState state;
    Result<std::optional<uint64_t>> length = next_length(&state);
    if (length.ok() && state == RecordState::kEnd) return skipped;
    Status passed;
    if (!length.ok()) {
      passed = length.error();
    } else if (state == RecordState::kPartial) {
      passed = ends_with(cut_short());
    } else {
      passed = stream_->seek(offset() + *length.value() + kTfrecordOverhead);
      if (!passed.ok()) passed = ends_with(passed.error());
    }
    if (!passed.ok()) return passed.error();
  }
  return std::max<int64_t>(count, 0);
}

Status TfrecordReader::seek(uint64_t offset) {
  Status moved = stream_->seek(offset);
  ended_ = !moved.ok();
  return moved;
}

TfrecordWriter::TfrecordWriter(std::unique_ptr<StagedWriter> file, TfrecordWriterOptions options)
    : file_(std::move(file)) {
  if (options.compression == Compression::kGzip || options.compression == Compression::kZlib) {
    deflater_ = std::make_unique<internal::Deflater>(options.compression, options.level);
  }
}

TfrecordWriter::TfrecordWriter(TfrecordWriter&&) noexcept = default;
TfrecordWriter& TfrecordWriter::operator=(TfrecordWriter&&) noexcept = default;
TfrecordWriter::~TfrecordWriter() = default;

Result<TfrecordWriter> TfrecordWriter::open(FileSystem& files, const std::string& path,
                                            TfrecordWriterOptions options) {
  if (options.level < 1 || options.level > 9) {
    return invalid_argument("cannot write '" + path + "': there is no compression level " +
                                std::to_string(options.level),
                            "take one from 1 (fast) to 9 (small)");
  }
  Result<std::unique_ptr<StagedWriter>> file = files.open_staged(path);
  if (!file.ok()) return file.error();
  return TfrecordWriter(std::move(file.value()), options);
}

Status TfrecordWriter::flush(bool last) {
  std::string packed;
  if (deflater_) deflater_->deflate(bytes_of(pending_), last, &packed);
  Status appended = file_->append(bytes_of(deflater_ ? packed : pending_));
  pending_.clear();
  if (!appended.ok()) failure_ = appended.error();
  return appended;
}

Status TfrecordWriter::write(Bytes payload) {
  if (failure_) return *failure_;
  append_tfrecord(pending_, payload);
  return pending_.size() < kWriteBuffer ? Status() : flush(/*last=*/false);
}

Status TfrecordWriter::close() {
  if (failure_) return *failure_;
  if (Status flushed = flush(/*last=*/true); !flushed.ok()) return flushed;
  return file_->commit();
}

}  // namespace muster::inline v0_1::formats
