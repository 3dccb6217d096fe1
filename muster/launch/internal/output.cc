#include "muster/launch/internal/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "muster/base/json.h"
#include "muster/base/terminal.h"
#include "muster/launch/lines.h"

namespace muster::inline v0_1::launch::internal {
namespace {

constexpr std::size_t kFullQueue = 1024 * 1024;
constexpr std::string_view kGap =
    "[muster] some output is missing here: its file could not grow (disk full, or ulimit -f)\n";
// After POLLOUT a write of this much to a pipe never blocks.
constexpr std::size_t kSafeWrite = 4096;
constexpr std::array kColors = {36, 33, 35, 32, 34, 96, 93, 95, 92, 94};

std::string as_json(int stream, std::string_view task, std::string_view text) {
  using nlohmann::ordered_json;
  ordered_json object{{"task", task}};
  // parse_json() refuses what is nested so deeply that writing it again would overflow the stack.
  const auto said = parse_json(text, "a line");
  if (said.ok() && said.value().is_object()) {
    object.update(ordered_json::parse(text));
    object["task"] = task;
  } else {
    object["stream"] = stream == 0 ? "stdout" : "stderr";
    object["message"] = text;
  }
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

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
      const bool blank = current_.find_first_not_of(' ') == std::string::npos;
      passing_ = blank ? "" : current_;
      emit(passing_, true);
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

Output::Output(int out_fd, int err_fd, bool json) : json_(json) {
  streams_[0] = {.fd = out_fd, .terminal = takes_escapes(out_fd), .color = takes_color(out_fd)};
  streams_[1] = {.fd = err_fd, .terminal = takes_escapes(err_fd), .color = takes_color(err_fd)};
  both_terminals_ = streams_[0].terminal && streams_[1].terminal;
}

Output::~Output() {
  if (shown_ == 0) return;
  const Stream& target = streams_[block_on_];
  if (target.closed) return;
  [[maybe_unused]] const ssize_t ignored = write(target.fd, "\n", 1);
}

Output::Stream& Output::stream(int index) { return streams_[both_terminals_ ? 0 : index]; }

std::string Output::prefixed(const Stream& target, std::string_view prefix, int color,
                             std::string_view text) const {
  if (target.color) {
    return fmt::format("\x1b[{}m[{}]\x1b[0m {}", kColors[color % kColors.size()], prefix, text);
  }
  return fmt::format("[{}] {}", prefix, text);
}

// The cursor stands after the last line of the block.
void Output::hide_block() {
  if (shown_ == 0) return;
  Stream& target = streams_[block_on_];
  if (shown_ > 1) target.queue += fmt::format("\x1b[{}A", shown_ - 1);
  target.queue += "\r\x1b[J";
  shown_ = 0;
}

void Output::show_block(int index) {
  if (block_.empty()) return;
  Stream& target = streams_[index];
  // A line that wraps, or a block taller than the screen, could not be removed again.
  const TerminalSize size = terminal_size(target.fd).value_or(TerminalSize{});
  const int room = std::max(1, size.rows - 1);
  const int all = static_cast<int>(block_.size());
  const int full = all <= room ? all : room - 1;
  for (const auto& [task, line] : block_) {
    if (shown_ == full) break;
    const int columns = size.columns - 1 - static_cast<int>(line.prefix.size()) - 3;
    if (shown_++ > 0) target.queue += "\r\n";
    if (columns > 0) {
      target.queue += prefixed(target, line.prefix, task, cut_to_columns(line.text, columns));
    } else {
      target.queue += cut_to_columns(line.prefix, size.columns - 1);
    }
  }
  if (full < all) {
    if (shown_++ > 0) target.queue += "\r\n";
    target.queue += cut_to_columns(fmt::format("and {} more", all - full), size.columns - 1);
  }
  block_on_ = index;
}

void Output::line(int index, std::string_view prefix, int color, std::string_view text) {
  Stream& target = stream(index);
  if (target.closed) return;
  if (target.gap) add_gap(target);
  if (json_) {
    target.queue += as_json(index, prefix, text);
    return;
  }
  const bool beside = target.terminal && shown_ > 0;
  if (beside) hide_block();
  target.queue += prefixed(target, prefix, color, text);
  target.queue += '\n';
  if (beside) show_block(both_terminals_ ? 0 : index);
}

void Output::passing(int index, std::string_view prefix, int color, std::string_view text) {
  Stream& target = stream(index);
  if (target.closed || !target.terminal || json_) return;
  hide_block();
  if (text.empty()) {
    block_.erase(color);
  } else {
    block_[color] = {std::string(prefix), std::string(text)};
  }
  show_block(both_terminals_ ? 0 : index);
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
      // Training continues, because it is worth more than its log. A disk may have space again
      // later; a reader that is gone does not return.
      target.gap = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
      target.closed = !target.gap;
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

void Output::add_gap(Stream& target) {
  target.gap = false;
  target.queue += '\n';  // the line before may be cut
  if (json_) {
    target.queue += nlohmann::json{{"message", kGap.substr(0, kGap.size() - 1)}}.dump() + "\n";
  } else {
    target.queue += kGap;
  }
}

bool Output::full() const {
  return std::any_of(std::begin(streams_), std::end(streams_), [](const Stream& target) {
    return target.queue.size() - target.written > kFullQueue;
  });
}

}  // namespace muster::inline v0_1::launch::internal
