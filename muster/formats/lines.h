// Reads lines of text. They end with \n or \r\n, the last one with either or none. Thread safety: a
// reader belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/result.h"
#include "muster/formats/input_stream.h"

namespace muster::inline v0_1::formats {

// The longest line that is read, in bytes. A file without line ends must not fill the memory.
inline constexpr uint64_t kLongestLine = uint64_t{1} << 30;

// Counts the line ends in the next `bytes` bytes of the stream, or in the bytes that are left, and
// moves the stream to their end. Each byte in `ends` is a line end.
Result<uint64_t> count_line_ends(InputStream& stream, uint64_t bytes, std::string_view ends = "\n");

// Reads the lines of one file in order.
class LineReader {
 public:
  // `stream` must not be null and must be at its beginning.
  explicit LineReader(std::unique_ptr<InputStream> stream, uint64_t longest_line = kLongestLine)
      : stream_(std::move(stream)), longest_line_(longest_line) {}

  // Reads the next line, without its end; returns false at the end of the file. The view is good
  // until the next call. Returns Corrupt, naming the file and the line, for a line over the limit;
  // the next call continues after it. After an error of the stream the next call returns false.
  Result<bool> next(std::string_view* line);

  // Where the last line begins: its byte in the unpacked content, and its number, counted from 1.
  // After a seek() the first call for the number reads the file from its beginning; the line is
  // gone then.
  uint64_t line_offset() const { return line_offset_; }
  Result<uint64_t> line_number();

  // The byte at which the next line begins.
  uint64_t offset() const { return stream_->offset() + shown_; }
  // Continues at an offset that offset() returned. Returns InvalidArgument if no line can begin
  // there; the reader is at the end then.
  Status seek(uint64_t offset);

  // The name of the file in errors: its path.
  const std::string& name() const { return stream_->name(); }

 private:
  Status pass_line();

  std::unique_ptr<InputStream> stream_;
  uint64_t longest_line_;
  size_t shown_ =
      0;  // bytes of the last line and its end, not yet consumed: the caller looks at it
  uint64_t line_offset_ = 0;
  // How many lines begin before the next one; unknown after a seek().
  std::optional<uint64_t> lines_ = 0;
  bool ended_ = false;
};

}  // namespace muster::inline v0_1::formats
