#include "muster/board/event_tail.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "muster/base/crc32c.h"
#include "muster/base/strings.h"
#include "muster/formats/tfrecord.h"

namespace muster::inline v0_1::board {
namespace {

// A record begins with its length and a checksum of the length.
constexpr uint64_t kHeaderBytes = 12;
constexpr size_t kSearchedBytes = 1 << 20;

// Shows the bytes of a file before `end` alone, so that a length that a record claims costs no
// memory beyond it.
class BoundedReader : public FileReader {
 public:
  BoundedReader(FileReader& file, uint64_t end) : file_(file), end_(end) {}
  Result<uint64_t> size() override { return end_; }
  Result<size_t> read_at(uint64_t offset, MutableBytes out) override {
    if (offset >= end_) return size_t{0};
    return file_.read_at(offset, out.first(std::min<uint64_t>(out.size(), end_ - offset)));
  }
  const std::string& name() const override { return file_.name(); }

 private:
  FileReader& file_;
  const uint64_t end_;
};

// The length of the record that begins with these bytes; nothing where none begins.
std::optional<uint64_t> length_in(Bytes header) {
  if (header.size() < kHeaderBytes) return std::nullopt;
  if (load_little_endian<uint32_t>(header.data() + 8) != masked_crc32c(header.first(8)))
    return std::nullopt;
  return load_little_endian<uint64_t>(header.data());
}

std::optional<uint64_t> length_at(FileReader& file, uint64_t offset) {
  std::byte header[kHeaderBytes];
  const Result<size_t> got = file.read_at(offset, header);
  return length_in(Bytes(header, got.ok() ? got.value() : 0));
}

// Whether a record of this length that begins at `offset` can be in a file of `size` bytes.
bool fits(uint64_t length, uint64_t offset, uint64_t size) {
  return size - offset >= formats::kTfrecordOverhead &&
         length <= size - offset - formats::kTfrecordOverhead;
}

}  // namespace

EventTail::EventTail(FileSystem& files, std::string path, EventTailOptions options)
    : files_(files), path_(std::move(path)), options_(options) {}

std::vector<std::string> EventTail::take_notes() { return std::exchange(notes_, {}); }

void EventTail::note(std::string text) { notes_.push_back(std::move(text)); }

void EventTail::skip_damage(FileReader& file, uint64_t size) {
  const uint64_t damaged = offset_;
  std::vector<std::byte> bytes(kSearchedBytes);
  for (uint64_t at = damaged + 1; at + formats::kTfrecordOverhead <= size;) {
    const Result<size_t> got = file.read_at(at, bytes);
    if (!got.ok() || got.value() < kHeaderBytes) break;
    for (size_t place = 0; place + kHeaderBytes <= got.value(); ++place) {
      const auto length = length_in(Bytes(bytes).subspan(place, kHeaderBytes));
      if (!length || !fits(*length, at + place, size)) continue;
      offset_ = at + place;
      note(fmt::format("{}: {} from byte {} are damaged and skipped", path_,
                       human_bytes(offset_ - damaged), damaged));
      return;
    }
    at += got.value() - kHeaderBytes + 1;
  }
  offset_ = size;
  note(fmt::format("{}: the file is damaged from byte {} to its end", path_, damaged));
}

bool EventTail::read(uint64_t size, const TakeRecord& take) {
  if (size < offset_) {
    note(fmt::format("{}: the file became shorter; the part before byte {} is not read again",
                     path_, offset_));
    offset_ = size;
  }
  if (size == offset_) return false;
  const auto fail = [this](const Error& error) {
    if (std::exchange(last_failure_, error.message()) != error.message()) note(error.message());
    return false;
  };
  Result<std::unique_ptr<FileReader>> file = files_.open_reader(path_);
  if (!file.ok()) return fail(file.error());
  const uint64_t begin = offset_;
  const uint64_t most = options_.most_record_bytes + formats::kTfrecordOverhead;
  const uint64_t end = size - offset_ > most ? offset_ + most : size;
  Result<formats::TfrecordReader> opened = formats::TfrecordReader::open(
      std::make_unique<BoundedReader>(*file.value(), end), formats::Compression::kNone);
  if (!opened.ok()) return fail(opened.error());
  formats::TfrecordReader& reader = opened.value();
  if (const Status moved = reader.seek(offset_); !moved.ok()) return fail(moved.error());
  ends_inside_ = false;
  while (offset_ - begin < options_.slice_bytes) {
    Bytes payload;
    const Result<formats::RecordState> state = reader.poll(&payload);
    if (state.ok()) {
      if (state.value() == formats::RecordState::kEnd) break;
      if (state.value() == formats::RecordState::kPartial) {
        ends_inside_ = true;
        break;
      }
      take(offset_, payload);
      offset_ = reader.offset();
      continue;
    }
    if (state.error().kind() != ErrorKind::kCorrupt) return fail(state.error());
    const std::optional<uint64_t> length = length_at(*file.value(), offset_);
    if (!length) {
      skip_damage(*file.value(), size);
      return offset_ < size;
    }
    note(state.error().message());
    offset_ += *length + formats::kTfrecordOverhead;
  }
  last_failure_.clear();
  if (!ends_inside_) return offset_ < size;
  if (end == size) return false;
  ends_inside_ = false;
  if (offset_ != begin) return true;
  // The record is longer than what was shown of the file.
  const std::optional<uint64_t> length = length_at(*file.value(), offset_);
  if (!length || !fits(*length, offset_, size)) {
    ends_inside_ = true;
    return false;
  }
  note(fmt::format("{}: the record at byte {} has {}, more than {}, and is skipped", path_, offset_,
                   human_bytes(*length), human_bytes(options_.most_record_bytes)));
  offset_ += *length + formats::kTfrecordOverhead;
  return offset_ < size;
}

}  // namespace muster::inline v0_1::board
