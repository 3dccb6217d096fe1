// Cuts bytes that come in pieces into lines. Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace muster::inline v0_1::launch {

// A line that is longer is passed on in parts of this many bytes: a progress bar that never ends
// its line, or a file of bytes, must not fill the memory of a process that follows a log.
constexpr std::size_t kLongestLine = 64 * 1024;

// Passes lines on as they end, and keeps the incomplete one.
class Lines {
 public:
  // Gets a line without its end.
  using Emit = std::function<void(std::string_view line)>;

  // Returns how many lines it has passed on.
  int append(std::string_view bytes, const Emit& emit);
  // Passes on a line without an end.
  void finish(const Emit& emit);

 private:
  std::string begun_;  // a line whose end has not come
};

}  // namespace muster::inline v0_1::launch
