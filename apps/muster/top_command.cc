#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/muster/commands.h"
#include "apps/muster/top.h"
#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/terminal.h"
#include "muster/base/uri.h"
#include "muster/command/command_line.h"
#include "muster/files/file_systems.h"

namespace muster::app {
namespace {

struct TopFlags {
  std::string model_dir{};
  bool once = false;
  double interval = 1;
};

std::atomic<bool> top_ends = false;

// poll() ends with a signal: the size of the terminal has changed, or the user wants no more.
void on_top_signal(int signal) {
  if (signal != SIGWINCH) top_ends = true;
}

// A screen of its own, so that what the terminal showed before is there again afterwards.
class Screen {
 public:
  explicit Screen(bool shown) : shown_(shown) { write("\033[?1049h\033[?25l"); }
  ~Screen() { write("\033[?25h\033[?1049l"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // In one write, and without clearing the screen before: nothing flickers.
  void draw(const std::vector<std::string>& lines) const {
    std::string frame = "\033[H";
    for (size_t l = 0; l < lines.size(); ++l) frame += (l > 0 ? "\n" : "") + lines[l] + "\033[K";
    write(frame + "\033[J");
  }

 private:
  void write(const std::string& text) const {
    if (!shown_) return;
    fputs(text.c_str(), stdout);
    fflush(stdout);
  }
  const bool shown_;
};

summary::LiveRun look(const TopFlags& flags) {
  return summary::live_run(summary::read_live_statuses(file_systems(), flags.model_dir),
                           system_clock().wall_seconds());
}

void print(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) puts(line.c_str());
  fflush(stdout);
}

int top(const TopFlags& flags) {
  // Each look at a bucket is a list and a request for each task.
  constexpr double kLeastInBucket = 5;
  const double interval =
      is_remote(flags.model_dir) ? std::max(flags.interval, kLeastInBucket) : flags.interval;
  const bool screen = !flags.once && isatty(STDOUT_FILENO) != 0 && takes_escapes(STDOUT_FILENO);
  summary::LiveRun run = look(flags);
  if (run.tasks.empty() && !screen) {
    throw not_found("no task of a run has told what it does in " + flags.model_dir,
                    "a run begins with it a second after its start, or 15 seconds in a bucket, "
                    "unless MUSTER_LIVE_SECONDS=0 is set; the path is that of RunConfig.model_dir, "
                    "or what docs/board.md says of loops and Keras models");
  }
  const TopView once{.columns = terminal_size(STDOUT_FILENO).value_or(TerminalSize{200, 0}).columns,
                     .color = takes_color(STDOUT_FILENO)};
  if (flags.once) {
    print(top_lines(run, once));
    return 0;
  }
  struct sigaction heard {};
  heard.sa_handler = on_top_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaction(signal, &heard, nullptr);
  const Screen shown(screen);
  while (!top_ends) {
    if (screen) {
      const TerminalSize size = terminal_size(STDOUT_FILENO).value_or(TerminalSize{});
      shown.draw(run.tasks.empty() ? std::vector<std::string>{"no task has told what it does in " +
                                                              flags.model_dir + " yet"}
                                   : top_lines(run, {.columns = size.columns,
                                                     .rows = size.rows,
                                                     .color = takes_color(STDOUT_FILENO)}));
    } else {
      print(plain_lines(run));
      if (all_ended(run)) break;
    }
    poll(nullptr, 0, static_cast<int>(interval * 1000));
    run = look(flags);
  }
  return 0;
}

}  // namespace

void add_top(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("top", "Show what the tasks of a run do, and which one is slow");
  auto flags = std::make_shared<TopFlags>();
  command::add_argument(*command, {"MODEL_DIR", &flags->model_dir, "Folder of a run"})->required();
  command::add_flag(*command, {"once", &flags->once, "Print the table once and end"});
  command::add_flag(*command, {"interval",
                               &flags->interval,
                               "Seconds between two looks; at least 5 in a bucket",
                               {.at_least = 0.1, .at_most = 3600},
                               "SECONDS"});
  command->footer(
      "Every second, and every 15 seconds in a bucket, each task of a run writes what it does to\n"
      "MODEL_DIR/live: its step, the seconds\n"
      "of its last steps by activity, and the last lines of its log. This command reads these "
      "files.\n"
      "A task is the slow one if it takes at least 1.25 times as long as the median of the "
      "others.\n"
      "On a terminal, Ctrl-C ends the command. Elsewhere it prints lines until the run has ended.\n"
      "Exit codes: 0 shown, 2 no task has written anything.\n"
      "\n"
      "Examples:\n"
      "  muster top model\n"
      "  muster top model --once");
  command->callback([flags, &action] { action = [flags] { return top(*flags); }; });
}

}  // namespace muster::app
