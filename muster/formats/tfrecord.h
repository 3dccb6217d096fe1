// TFRecord: records of bytes in a file, each framed by its length and two masked CRC-32C:
//   u64 length | u32 crc of the length | payload | u32 crc of the payload        (little-endian)
// Thread safety: a reader or writer belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/base/bytes.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// Bytes a record takes beside its payload.
inline constexpr uint64_t kTfrecordOverhead = 16;

// Adds the framed record to `out`.
void append_tfrecord(std::string& out, Bytes payload);
// Writes the framed record to `sink` in one append.
Status write_tfrecord(ByteSink& sink, Bytes payload);

// How reading a record ended.
enum class RecordState {
  kRecord,   // a whole record was read
  kEnd,      // the file ends at the border of a record
  kPartial,  // the file ends inside a record: cut short, or still being written
};

// Reads the records of one file in order.
class TfrecordReader {
 public:
  // `file` must not be null.
  explicit TfrecordReader(std::unique_ptr<FileReader> file) : file_(std::move(file)) {}

  // For files still being written: after kEnd or kPartial the position stays, so that a later call
  // sees what has been added. Corrupt, with the offset of the record, when a checksum is wrong; the
  // position stays there too.
  Result<RecordState> poll(std::string* payload);

  // For finished files: false at the end; a partial record is Corrupt too.
  Result<bool> read(std::string* payload);

  // Where the next record starts.
  uint64_t offset() const { return offset_; }

 private:
  // Makes [offset_, offset_ + length) available; false when the file ends before.
  Result<bool> fill(uint64_t length);
  Error damaged(const std::string& what) const;

  std::unique_ptr<FileReader> file_;
  uint64_t offset_ = 0;
  std::string buffer_;  // bytes of the file from buffer_offset_ on
  uint64_t buffer_offset_ = 0;
};

}  // namespace muster::inline v0_1::formats
