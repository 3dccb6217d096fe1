#include "muster/launch/internal/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

namespace muster::launch::internal {
namespace {

constexpr std::size_t kLongestLine = 64 * 1024;
constexpr std::size_t kFullQueue = 1024 * 1024;
// What poll's POLLOUT promises for a pipe: this much never blocks.
constexpr std::size_t kSafeWrite = 4096;
constexpr std::string_view kClearLine = "\r\x1b[K";
constexpr std::array kColors = {36, 33, 35, 32, 34, 96, 93, 95, 92, 94};

}  // namespace

void LineSplitter::append(std::string_view bytes, const Emit& emit) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\r\n");
    if (end == std::string_view::npos) {
      current_.append(bytes);
      if (current_.size() > kLongestLine) {
        emit(current_, false);
        current_.clear();
      }
      return;
    }
    current_.append(bytes.substr(0, end));
    if (bytes[end] == '\n') {
      emit(current_.empty() ? passing_ : current_, false);
      passing_.clear();
      current_.clear();
    } else if (!current_.empty()) {
      emit(current_, true);
      passing_ = std::move(current_);
      current_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::finish(const Emit& emit) {
  const std::string& rest = current_.empty() ? passing_ : current_;
  if (!rest.empty()) emit(rest, false);
  current_.clear();
  passing_.clear();
}

Output::Output(int out_fd, int err_fd) {
  streams_[0] = {.fd = out_fd, .terminal = isatty(out_fd) == 1};
  streams_[1] = {.fd = err_fd, .terminal = isatty(err_fd) == 1};
  both_terminals_ = streams_[0].terminal && streams_[1].terminal;
  const char* no_color = std::getenv("NO_COLOR");
  color_ = no_color == nullptr || *no_color == '\0';
}

Output::~Output() {
  if (!passing_shown_) return;
  for (const Stream& target : streams_) {
    if (!target.terminal || target.closed) continue;
    [[maybe_unused]] const ssize_t ignored = write(target.fd, "\n", 1);
    return;
  }
}

Output::Stream& Output::stream(int index) { return streams_[both_terminals_ ? 0 : index]; }

std::string Output::prefixed(const Stream& target, std::string_view prefix, int color,
                             std::string_view text) const {
  if (target.terminal && color_) {
    return fmt::format("\x1b[{}m[{}]\x1b[0m {}", kColors[color % kColors.size()], prefix, text);
  }
  return fmt::format("[{}] {}", prefix, text);
}

void Output::line(int index, std::string_view prefix, int color, std::string_view text) {
  Stream& target = stream(index);
  if (target.closed) return;
  if (target.terminal && passing_shown_) {
    target.queue += kClearLine;
    passing_shown_ = false;
  }
  target.queue += prefixed(target, prefix, color, text);
  target.queue += '\n';
}

void Output::passing(int index, std::string_view prefix, int color, std::string_view text) {
  Stream& target = stream(index);
  if (target.closed || !target.terminal) return;
  target.queue += kClearLine;
  target.queue += prefixed(target, prefix, color, text);
  passing_shown_ = true;
}

int Output::waiting_fd(int index) const {
  const Stream& target = streams_[index];
  return target.queue.size() > target.written && !target.closed ? target.fd : -1;
}

void Output::write_some(int index) {
  Stream& target = streams_[index];
  if (waiting_fd(index) < 0) return;
  const std::size_t count = std::min(kSafeWrite, target.queue.size() - target.written);
  const ssize_t done = write(target.fd, target.queue.data() + target.written, count);
  if (done < 0) {
    if (errno != EINTR && errno != EAGAIN) {
      // Nobody reads any more. Training is worth more than its log, so it goes on.
      target.closed = true;
      target.queue.clear();
      target.written = 0;
    }
    return;
  }
  target.written += static_cast<std::size_t>(done);
  if (target.written == target.queue.size()) {
    target.queue.clear();
    target.written = 0;
  } else if (target.written > kFullQueue) {
    target.queue.erase(0, target.written);
    target.written = 0;
  }
}

bool Output::full() const {
  return std::any_of(std::begin(streams_), std::end(streams_), [](const Stream& target) {
    return target.queue.size() - target.written > kFullQueue;
  });
}

}  // namespace muster::launch::internal
