// TFRecord: records of bytes in a file, each framed by its length and two masked CRC-32C:
//   u64 length | u32 crc of the length | payload | u32 crc of the payload        (little-endian)
// The file as a whole may be compressed. Thread safety: a reader or writer belongs to one thread at
// a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/bytes.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"
#include "muster/formats/compression.h"

namespace muster::inline v0_1::formats {

class InputStream;
namespace internal {
class Deflater;
}

// The number of bytes that framing adds to a payload.
inline constexpr uint64_t kTfrecordOverhead = 16;

// Appends the framed record to `out`.
MUSTER_EXPORT void append_tfrecord(std::string& out, Bytes payload);
// Writes the framed record to `sink` in one append.
MUSTER_EXPORT Status write_tfrecord(ByteSink& sink, Bytes payload);

// How reading a record ended.
enum class RecordState {
  kRecord,   // a whole record was read
  kEnd,      // the file ends at the border of a record
  kPartial,  // the file ends inside a record: cut short, or still being written
};

// Reads the records of one file in order. Offsets are those of the uncompressed content.
//
// Errors are Corrupt, with the path and the offset of the record. After a wrong payload checksum,
// reading continues after the record. Any other damage leaves the beginning of the next record
// unknown: the reader is then at the end, until seek().
class MUSTER_EXPORT TfrecordReader {
 public:
  // Opens a reader at the first record. With kAuto it detects the compression: the checksum before
  // the first record distinguishes an uncompressed file from others. The errors are those of
  // reading.
  static Result<TfrecordReader> open(std::unique_ptr<FileReader> file,
                                     Compression compression = Compression::kAuto);
  // Does the same with a path. Returns NotFound when there is no such file.
  static Result<TfrecordReader> open(FileSystem& files, const std::string& path,
                                     Compression compression = Compression::kAuto);
  TfrecordReader(TfrecordReader&&) noexcept;
  TfrecordReader& operator=(TfrecordReader&&) noexcept;
  ~TfrecordReader();

  // Reads a record of an uncompressed file that is still being written. After kEnd or kPartial the
  // position is unchanged, so that a later call sees new bytes. `payload` is valid until the next
  // call.
  Result<RecordState> poll(Bytes* payload);

  // Reads a record of a finished file; returns false at the end. A partial record is Corrupt.
  // `payload` is valid until the next call.
  Result<bool> read(Bytes* payload);

  // Skips up to `count` records by their lengths, without reading payloads. Returns the number of
  // skipped records, which is smaller only at the end. The errors are those of read() that end the
  // file; the number before an error is not returned.
  Result<int64_t> skip(int64_t count);

  // Returns the byte at which the next record starts. After damage that ended the reader it is the
  // end of an uncompressed file.
  uint64_t offset() const;
  // Continues with the record that starts there. Returns InvalidArgument when the data ends before
  // it.
  Status seek(uint64_t offset);

  // The detected compression; never kAuto.
  Compression compression() const;
  // The name of the file in errors: its path.
  const std::string& name() const;

 private:
  explicit TfrecordReader(std::unique_ptr<InputStream> stream);
  // Returns the length of the payload of the next record. Without one it returns nothing, and
  // `state` says why.
  Result<std::optional<uint64_t>> next_length(RecordState* state);
  // Returns the error of the next record, and ends the reader.
  Error ends_with(Error error);
  Error damaged(const std::string& what, const std::string& hint) const;
  Error cut_short() const;

  std::unique_ptr<InputStream> stream_;
  bool ended_ = false;
};

// Options of TfrecordWriter.
struct TfrecordWriterOptions {
  Compression compression = Compression::kNone;  // kAuto: none
  int level = 6;                                 // of a compression: 1 (fast) to 9 (small)
};

// Writes a file of records. The complete file appears under its name when close() is called; a
// writer that is destroyed without close() leaves no file.
class MUSTER_EXPORT TfrecordWriter {
 public:
  // Returns InvalidArgument for a level outside of 1 to 9, and the errors of the file system.
  static Result<TfrecordWriter> open(FileSystem& files, const std::string& path,
                                     TfrecordWriterOptions options = {});
  TfrecordWriter(TfrecordWriter&&) noexcept;
  TfrecordWriter& operator=(TfrecordWriter&&) noexcept;
  ~TfrecordWriter();

  // Adds a record. After an error every later call returns the same error.
  Status write(Bytes payload);
  // Gives the file its name, replacing an existing one. No further call may follow.
  Status close();

 private:
  TfrecordWriter(std::unique_ptr<StagedWriter> file, TfrecordWriterOptions options);
  Status flush(bool last);

  std::unique_ptr<StagedWriter> file_;
  std::unique_ptr<internal::Deflater> deflater_;  // none: uncompressed
  std::string pending_;                           // framed, not yet written
  std::optional<Error> failure_;
};

}  // namespace muster::inline v0_1::formats
