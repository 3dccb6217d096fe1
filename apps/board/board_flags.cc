#include "apps/board/board_flags.h"

#include <CLI/CLI.hpp>

#include "muster/command/command_line.h"
#include "muster/command/shared_flags.h"

namespace muster::app {

void add_board_flags(CLI::App& app, BoardFlags& flags) {
  command::add_arguments(app, "DIR", &flags.directories,
                         "Folders or buckets with event files in them or below them")
      ->required();
  command::add_flag(app, {"host",
                          &flags.host,
                          "Address to listen on; for another than this machine's own, the printed "
                          "address has a token",
                          {},
                          "ADDRESS"});
  command::add_flag(app, {"port",
                          &flags.port,
                          "Port to listen on; 0: a free port, shown in the log",
                          {.at_least = 0, .at_most = 65535}});
  command::add_flag(app, {"poll-time",
                          &flags.poll_time,
                          "Seconds between two checks for new events",
                          {.at_least = 0.1, .at_most = 3600},
                          "SECONDS"});
  command::add_flag(app, {"report",
                          &flags.report,
                          "HTML file to write instead of starting a server: the runs, in one file "
                          "that needs no network",
                          {},
                          "FILE"});
  Flag log_format = command::log_format_flag(flags.log_format);
  log_format.name = "log-format";  // as the command's other flags are written
  command::add_flag(app, log_format);
  app.footer(
      "Every folder with event files is a run: those of Muster, and those of TensorFlow 0.7 to 2.\n"
      "The page follows runs that are training. By default only this machine can connect. Nothing\n"
      "that the page shows is sent to another machine. Ctrl-C ends the board.\n"
      "\n"
      "Exit codes: 0 stopped, 2 the board could not start: a wrong argument, a port in use, or a\n"
      "folder that does not exist.\n"
      "\n"
      "Examples:\n"
      "  muster board model_dir\n"
      "  muster board runs/ s3://bucket/runs --port=0\n"
      "  muster board runs/ --host=0.0.0.0\n"
      "  muster board model_dir --report=report.html");
}

}  // namespace muster::app
