// Lines of many tasks on our two streams: each whole, prefixed with its task's name, never
// interleaved. Not thread-safe: the supervisor's loop owns it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace muster::inline v0_1::launch::internal {

// Cuts a task's bytes into lines. A carriage return ends a *passing* line (progress): the next one
// replaces it, and only the last before a newline is kept as a line. A blank one takes it away.
class LineSplitter {
 public:
  // passing is true for text a carriage return ended.
  using Emit = std::function<void(std::string_view text, bool passing)>;

  void append(std::string_view bytes, const Emit& emit);
  // Emits what is left without a newline.
  void finish(const Emit& emit);

 private:
  std::string current_;
  std::string passing_;
};

// Queues bytes for two descriptors and writes them when they can take them, so that a reader that
// has stopped never keeps us from signals. When both are terminals all goes to the first, in order.
class Output {
 public:
  // As JSON, a line is an object with "task", "stream" and "message"; what is one already, as
  // muster's own log lines are, only gets the task.
  Output(int out_fd, int err_fd, bool json = false);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  // Takes a passing line off the terminal.
  ~Output();

  // stream: 0 standard output, 1 standard error. color picks the prefix's colour on a terminal.
  void line(int stream, std::string_view prefix, int color, std::string_view text);
  // A terminal shows the last passing line of each task (color is its number) below all lines,
  // until its next one; empty text takes it away. Cut to the terminal's width; those its height has
  // no room for are only counted. Dropped elsewhere.
  void passing(int stream, std::string_view prefix, int color, std::string_view text);

  // The descriptor to wait on for POLLOUT, or -1 when nothing waits in this stream.
  int waiting_fd(int stream) const;
  // Writes what the descriptor takes without blocking; call when it is writable.
  void write_some(int stream);
  // Too much waits: stop reading from tasks until it has been written.
  bool full() const;

 private:
  struct Stream {
    int fd = -1;
    bool terminal = false;
    bool color = false;
    bool closed = false;  // the reader is gone; what comes is dropped
    std::string queue;
    std::size_t written = 0;
  };

  Stream& stream(int index);
  void hide_block();
  void show_block(int index);
  std::string prefixed(const Stream& target, std::string_view prefix, int color,
                       std::string_view text) const;

  Stream streams_[2];
  bool both_terminals_ = false;
  bool json_ = false;
  struct Passing {
    std::string prefix;
    std::string text;
  };
  // The passing lines by colour, which numbers the tasks, and how many lines of them stand on the
  // terminal of stream `block_on_`.
  std::map<int, Passing> block_;
  int block_on_ = -1;
  int shown_ = 0;
};

}  // namespace muster::inline v0_1::launch::internal
