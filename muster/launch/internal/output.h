// Writes the lines of many tasks to our two streams. Each line is whole and begins with the name of
// its task; lines are never mixed. Not thread-safe: the supervisor's loop owns it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace muster::inline v0_1::launch::internal {

// Cuts the bytes of a task into lines. A carriage return ends a *passing* line, as progress bars
// do: the next line replaces it, and only the last one before a newline is kept. A blank one
// removes it.
class LineSplitter {
 public:
  // `passing` is true for text that a carriage return ended.
  using Emit = std::function<void(std::string_view text, bool passing)>;

  void append(std::string_view bytes, const Emit& emit);
  // Emits the rest, which has no newline.
  void finish(const Emit& emit);

 private:
  std::string current_;
  std::string passing_;
};

// Queues bytes for two descriptors and writes them when the descriptors can take them, so that a
// reader that has stopped never keeps us from handling signals. When both are terminals, everything
// goes to the first, in order.
class Output {
 public:
  // With `json` a line becomes an object with "task", "stream" and "message". A line that is an
  // object already, as Muster's own log lines are, only gets the task.
  Output(int out_fd, int err_fd, bool json = false);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  // Removes passing lines from the terminal.
  ~Output();

  // Adds a line. `stream` is 0 for standard output and 1 for standard error; `color` picks the
  // colour of the prefix on a terminal.
  void line(int stream, std::string_view prefix, int color, std::string_view text);
  // Shows the last passing line of each task (`color` is the number of the task) below all lines of
  // a terminal; an empty text removes it. It is cut to the terminal's width, and lines that do not
  // fit its height are only counted. Elsewhere it is dropped.
  void passing(int stream, std::string_view prefix, int color, std::string_view text);

  // Returns the descriptor to wait on for POLLOUT, or -1 when nothing waits in this stream.
  int waiting_fd(int stream) const;
  // Writes as much as the descriptor takes without blocking. Call it when the descriptor is
  // writable.
  void write_some(int stream);
  // Whether so much waits that tasks must not be read until it has been written.
  bool full() const;

 private:
  struct Stream {
    int fd = -1;
    bool terminal = false;
    bool color = false;
    bool closed = false;  // the reader is gone; further bytes are dropped
    bool gap = false;     // bytes were dropped, because a disk was full
    std::string queue{};
    std::size_t written = 0;
  };

  Stream& stream(int index);
  // Says that bytes were dropped.
  void add_gap(Stream& target);
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
  // The passing lines by colour, which is the number of the task, and how many of them are shown on
  // the terminal of stream `block_on_`.
  std::map<int, Passing> block_;
  int block_on_ = -1;
  int shown_ = 0;
};

}  // namespace muster::inline v0_1::launch::internal
