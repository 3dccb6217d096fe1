// Hands the lines of Muster's log to the log of your program (spdlog, glog, absl).
//
//   log::set_sink([](const log::Line& line) { spdlog::info("muster: {}", line.text); },
//                 [] { spdlog::default_logger()->flush(); });
//
// MUSTER_LOG_LEVEL applies first: the sink gets no line below this level. These lines are not
// handed over, and are written to standard error as before:
//
// - lines that are written where no code of yours may run: the answer to SIGTERM or Ctrl-C, and the
//   last line of a process that runs out of memory or calls abort();
// - lines of other processes: the tasks that `muster run` starts have their own logs. A process
//   made by fork() keeps the sink, and the locks of your logger as they were;
// - lines that the sink itself causes, and a line for which it throws;
// - warnings of LibTorch and other libraries.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::log {

// The importance of a line, from the lowest to the highest.
enum class Level { kDebug, kInfo, kWarning, kError };
// Returns "debug", "info", "warning" or "error".
MUSTER_EXPORT std::string_view to_string(Level level);

// One line of the log. Its texts are valid until the sink returns. Control characters in them are
// written as "\x1b", except line ends and tabs; `text` may have several lines.
struct Line {
  std::chrono::system_clock::time_point time{};
  Level level = Level::kInfo;
  std::string_view text{};   // without the hint
  std::string_view hint{};   // what to do about it; empty without one
  std::string_view event{};  // the name of an event, such as "saved"; empty for other lines
  // The fields of an event, such as {"global_step", "100"}, by name: texts as they are, all other
  // values as JSON.
  std::vector<std::pair<std::string, std::string>> fields{};
};

// A function that takes lines.
using Sink = std::function<void(const Line&)>;

// From now on `sink` takes all lines, and nothing is written to standard error; `flush` is called
// when Muster flushes its log, as at the end of run_main(). Without a sink, `set_sink({})`, lines
// are written to standard error again. While there is a sink, no status line is shown.
//
// Thread safety: any thread may call it at any time. The sink is called by the thread that logs,
// and by several threads at once: it must be thread-safe, as the loggers named above are. No lock
// of Muster is held meanwhile. It must return, because a thread that trains waits for it. When
// set_sink() returns, no thread is in the former sink or in its flush any more; except if one of
// these calls set_sink() itself, which then does not wait. Reset the sink before your logger ends:
// threads of Muster may log until the process ends.
//
// A line for which the sink throws is written to standard error, and the first time also what it
// threw. Throws InvalidArgument for a flush without a sink, and Timeout if a call of the former
// sink has not returned after 30 seconds; the new one is in place then.
MUSTER_EXPORT void set_sink(Sink sink, std::function<void()> flush = {});

}  // namespace muster::inline v0_1::log
