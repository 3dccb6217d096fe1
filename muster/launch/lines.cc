#include "muster/launch/lines.h"

#include <algorithm>

namespace muster::inline v0_1::launch {
namespace {

// How much of a long line to pass on, so that no character of several bytes is cut.
std::size_t whole_characters(std::string_view text) {
  std::size_t end = text.size();
  // A character has at most three bytes after its first one.
  for (int back = 0; back < 4 && end > 0; ++back) {
    const auto byte = static_cast<unsigned char>(text[--end]);
    if (byte < 0x80) return text.size();
    if (byte >= 0xc0) return end;
  }
  return text.size();  // it is not UTF-8
}

}  // namespace

int Lines::append(std::string_view bytes, const Emit& emit) {
  int count = 0;
  while (!bytes.empty()) {
    if (bytes.front() == '\n') {
      emit(begun_);
      begun_.clear();
      bytes.remove_prefix(1);
      ++count;
      continue;
    }
    // A full line waits for the next byte, which may be its end.
    if (begun_.size() == kLongestLine) {
      const std::size_t whole = whole_characters(begun_);
      emit(std::string_view(begun_).substr(0, whole));
      begun_.erase(0, whole);
      ++count;
    }
    const std::size_t room = kLongestLine - begun_.size();
    const std::string_view piece = bytes.substr(0, std::min(bytes.find('\n'), room));
    begun_.append(piece);
    bytes.remove_prefix(piece.size());
  }
  return count;
}

void Lines::finish(const Emit& emit) {
  if (!begun_.empty()) emit(begun_);
  begun_.clear();
}

}  // namespace muster::inline v0_1::launch
