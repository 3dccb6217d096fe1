#include "muster/formats/lines.h"

#include <algorithm>

namespace muster::inline v0_1::formats {

Result<uint64_t> count_line_ends(InputStream& stream, uint64_t bytes, std::string_view ends) {
  uint64_t count = 0;
  while (bytes > 0) {
    Result<Bytes> shown = stream.peek(1);
    if (!shown.ok()) return shown.error();
    if (shown.value().empty()) break;
    const Bytes some = shown.value().first(std::min<uint64_t>(shown.value().size(), bytes));
    for (const char end : ends) {
      count +=
          static_cast<uint64_t>(std::count(some.begin(), some.end(), static_cast<std::byte>(end)));
    }
    stream.consume(some.size());
    bytes -= some.size();
  }
  return count;
}

Result<bool> LineReader::next(std::string_view* line) {
  if (ended_) return false;
  stream_->consume(shown_);
  shown_ = 0;
  line_offset_ = stream_->offset();
  size_t searched = 0;
  while (true) {
    Result<Bytes> bytes = stream_->peek(searched + 1);
    if (!bytes.ok()) {
      ended_ = true;
      return bytes.error();
    }
    const std::string_view text = text_of(bytes.value());
    const size_t found = text.find('\n', searched);
    const bool at_end = text.size() == searched;
    if (at_end && text.empty()) return false;
    if (found == std::string_view::npos && !at_end) {
      searched = text.size();
      if (searched <= longest_line_) continue;
      const Status passed = pass_line();
      if (!passed.ok()) return passed.error();
      if (lines_) ++*lines_;
      const Result<uint64_t> number = line_number();
      if (!number.ok()) return number.error();
      return corrupt(name() + ":" + std::to_string(number.value()) + ": a line longer than " +
                         std::to_string(longest_line_) + " bytes",
                     "check that this is a text file");
    }
    *line = text.substr(0, found);
    shown_ = at_end ? text.size() : found + 1;
    if (line->ends_with('\r')) line->remove_suffix(1);
    if (lines_) ++*lines_;
    return true;
  }
}

Status LineReader::pass_line() {
  while (true) {
    Result<Bytes> bytes = stream_->peek(1);
    if (!bytes.ok()) {
      ended_ = true;
      return bytes.error();
    }
    const std::string_view text = text_of(bytes.value());
    const size_t found = text.find('\n');
    stream_->consume(found == std::string_view::npos ? text.size() : found + 1);
    if (found != std::string_view::npos || text.empty()) return {};
  }
}

Result<uint64_t> LineReader::line_number() {
  if (lines_) return *lines_;
  const uint64_t resume = offset();
  shown_ = 0;
  Status status = stream_->seek(0);
  if (status.ok()) {
    Result<uint64_t> before = count_line_ends(*stream_, line_offset_);
    if (before.ok()) {
      lines_ = before.value() + 1;
      status = stream_->seek(resume);
    } else {
      status = before.error();
    }
  }
  if (status.ok()) return *lines_;
  ended_ = true;
  return status.error();
}

Status LineReader::seek(uint64_t offset) {
  shown_ = 0;
  ended_ = false;
  lines_ = std::nullopt;
  if (offset == 0) lines_ = 0;
  Status status = stream_->seek(offset == 0 ? 0 : offset - 1);
  if (status.ok() && offset > 0) {
    // A line begins after a line end, or at the end of a file without one there.
    Result<Bytes> around = stream_->peek(2);
    if (!around.ok()) {
      status = around.error();
    } else if (text_of(around.value()).starts_with('\n') || around.value().size() == 1) {
      stream_->consume(1);
    } else {
      status =
          invalid_argument("no line of '" + name() + "' begins at byte " + std::to_string(offset),
                           "the file is not the one the position was taken from");
    }
  }
  if (!status.ok()) ended_ = true;
  return status;
}

}  // namespace muster::inline v0_1::formats
