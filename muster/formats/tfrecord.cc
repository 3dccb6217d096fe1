#include "muster/formats/tfrecord.h"

#include <algorithm>

#include "muster/base/crc32c.h"

namespace muster::inline v0_1::formats {
namespace {

constexpr uint64_t kHeader = 12;
constexpr uint64_t kTrailer = 4;
// Read ahead, so that small records do not cost a system call each.
constexpr uint64_t kChunk = 64 * 1024;

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

Result<bool> TfrecordReader::fill(uint64_t length) {
  const uint64_t skip = offset_ - buffer_offset_;
  if (buffer_.size() - skip >= length) return true;
  // The length comes from the file: nothing is allocated that the file cannot fill.
  Result<uint64_t> size = file_->size();
  if (!size.ok()) return size.error();
  if (size.value() < offset_ || size.value() - offset_ < length) return false;
  buffer_.erase(0, skip);
  buffer_offset_ = offset_;
  const size_t have = buffer_.size();
  buffer_.resize(std::min(std::max(length, kChunk), size.value() - offset_));
  Result<size_t> got = file_->read_at(
      offset_ + have,
      std::as_writable_bytes(std::span(buffer_.data() + have, buffer_.size() - have)));
  buffer_.resize(have + (got.ok() ? got.value() : 0));
  if (!got.ok()) return got.error();
  return buffer_.size() >= length;
}

Error TfrecordReader::damaged(const std::string& what) const {
  return corrupt(
      "'" + file_->name() + "': " + what + " the record at byte " + std::to_string(offset_),
      "the file is damaged from there on; the records before it are good");
}

Result<RecordState> TfrecordReader::poll(std::string* payload) {
  Result<bool> there = fill(kHeader);
  if (!there.ok()) return there.error();
  if (!there.value()) {
    Result<bool> any = fill(1);
    if (!any.ok()) return any.error();
    return any.value() ? RecordState::kPartial : RecordState::kEnd;
  }
  const auto at = [&](uint64_t begin) {
    return buffer_.data() + (offset_ - buffer_offset_) + begin;
  };
  const auto length = load_little_endian<uint64_t>(at(0));
  if (load_little_endian<uint32_t>(at(8)) != masked_crc32c(bytes_of({at(0), 8}))) {
    return damaged("wrong checksum of the length of");
  }
  if (length > UINT64_MAX - kTfrecordOverhead) return RecordState::kPartial;
  there = fill(length + kTfrecordOverhead);
  if (!there.ok()) return there.error();
  if (!there.value()) return RecordState::kPartial;
  const std::string_view body(at(kHeader), length);
  if (load_little_endian<uint32_t>(at(kHeader + length)) != masked_crc32c(bytes_of(body))) {
    return damaged("wrong checksum of the content of");
  }
  payload->assign(body);
  offset_ += length + kTfrecordOverhead;
  static_assert(kHeader + kTrailer == kTfrecordOverhead);
  return RecordState::kRecord;
}

Result<bool> TfrecordReader::read(std::string* payload) {
  Result<RecordState> state = poll(payload);
  if (!state.ok()) return state.error();
  if (state.value() == RecordState::kPartial) return damaged("the file ends inside");
  return state.value() == RecordState::kRecord;
}

}  // namespace muster::inline v0_1::formats
